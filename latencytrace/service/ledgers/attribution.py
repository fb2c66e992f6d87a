"""Attributes the spans of traces into the ledgers of their requests."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Final

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.analysis.ledger.requests import request_of
from latencytrace.analysis.repairs.duplicates import without_duplicates
from latencytrace.analysis.trace.is_request import as_load, is_shared, may_be_startup
from latencytrace.model import Request, Span, Stage, Trace, semconv
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.ledgers.column_attribution import ByColumns, ColumnAttribution
from latencytrace.service.ledgers.process_starts import Process, ProcessStarts, served_by
from latencytrace.service.ledgers.span_parts import NONE_HELD, Parts, once, spans_in
from latencytrace.service.metrics.span_account import Without
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.store import Revisions

_log = logging.getLogger(__name__)

_NONE_NEEDED: Final[Mapping[str, AbstractSet[str]]] = MappingProxyType({})

# The analysis accepts spans in any order and state, so each of these is a bug of ours. It must
# cost its own trace only.
FAULTS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip


@dataclass(slots=True)
class Attributed:
    """The result of attributing a batch of traces."""

    tables: list[LedgerTable] = field(default_factory=list)  # requests
    # Trace and span id of what is no request any more, with its last revision.
    withdrawn: dict[tuple[str, str], int] = field(default_factory=dict)
    steps: dict[str, list[Span]] = field(default_factory=dict)  # shared steps, by trace
    reasons: dict[str, Without] = field(default_factory=dict)  # by trace without a request
    starts: list[str] = field(default_factory=list)  # traces of startup, attributed as requests
    spans: dict[str, Sequence[Span]] = field(default_factory=dict)  # by trace of the object path
    device_spans: list[Span] = field(default_factory=list)  # of traces of the column path

    @property
    def with_request(self) -> set[str]:
        """The ids of the traces with a request."""
        return set(chain.from_iterable(table.trace_ids for table in self.tables))


class Attribution:
    """Attributes traces.

    Args:
        is_old: Returns whether the root of a trace is not expected any more.
        known: Returns processes that have served requests; called once, before the first trace.
        columns: The column path; None: a new one.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        is_old: Callable[[str], bool],
        known: Callable[[], Iterable[Process]] = tuple,
        columns: ColumnAttribution | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._is_old = is_old
        self._columns = columns or ColumnAttribution()
        self._known = known
        self._starts: ProcessStarts | None = None

    def attributed(
        self,
        arrived: Mapping[str, Sequence[Span]],
        revisions: Revisions,
        held: Mapping[str, Parts] = NONE_HELD,
        needed: Mapping[str, AbstractSet[str]] = _NONE_NEEDED,
    ) -> Attributed:
        """Attribute the requests of each trace.

        Args:
            arrived: Spans from the store, by trace; copies that differ among them.
            revisions: Revisions of the requests that were written of these.
            held: Spans in memory, by trace; no request of these was written.
            needed: Spans that written ledgers stand on, by trace.
        """
        if self._starts is None:
            self._starts = ProcessStarts(self._known())
        by_columns = self._by_columns(held, self._starts)
        others = {one: spans_in(held[one]) for one in by_columns.others}
        spans, copies = _once({**others, **arrived})
        found = self._of_objects(spans, copies, revisions, self._starts, needed)
        found.starts += by_columns.starts
        if (table := self._columns.table(by_columns, self._starts)) is not None:
            found.tables.append(table)
        found.device_spans = by_columns.device_spans
        faulty = len(by_columns.faulty)
        self._telemetry.attributed_traces.labels("fault").inc(faulty)
        self._telemetry.attributed_traces.labels("objects").inc(len(spans) - faulty)
        self._telemetry.attributed_traces.labels("columns").inc(len(held.keys() - spans.keys()))
        self._telemetry.content_removed.inc(by_columns.content_removed)
        return found

    def _by_columns(self, held: Mapping[str, Parts], starts: ProcessStarts) -> ByColumns:
        young = {one: parts for one, parts in held.items() if not self._is_old(one)}
        found = self._columns.attributed(young, starts)
        found.others += held.keys() - young.keys()
        return found

    def _of_objects(
        self,
        arrived: Mapping[str, Sequence[Span]],
        copies: Mapping[str, Sequence[Span]],
        revisions: Revisions,
        starts: ProcessStarts,
        needed: Mapping[str, AbstractSet[str]],
    ) -> Attributed:
        found = Attributed(spans=dict(arrived))
        before: dict[str, dict[str, int]] = {}
        for (trace_id, span_id), revision in revisions.items():
            before.setdefault(trace_id, {})[span_id] = revision
        traces: list[Trace] = []
        found.starts += starts.served(served_by(chain.from_iterable(arrived.values())))
        for trace_id, spans in arrived.items():
            whole = (*spans, *copies.get(trace_id, ()))
            known = before.get(trace_id, {})
            if not _has_all(whole, known.keys() | needed.get(trace_id, set())):
                # The rest would replace a complete ledger.
                self._telemetry.outdated.inc()
                found.reasons[trace_id] = Without.OUTDATED
            else:
                traces += self._traces(trace_id, whole, known, found)
        if requests := self._requests(traces, revisions, found):
            found.tables.append(LedgerTable.of(requests))
        _note_steps(arrived, found)
        return found

    def _traces(
        self, trace_id: str, spans: Sequence[Span], known: Mapping[str, int], found: Attributed
    ) -> Sequence[Trace]:
        """Build the trees of a trace.

        Args:
            spans: All its spans, and spans that share an id with one of them.
            known: Revisions of its requests in the store, by span id.
            found: Gets withdrawn requests, and the reason if there is no tree.
        """
        if not known:  # counted with the first revision
            self._telemetry.content_removed.inc(sum(span.content_removed for span in spans))
        try:
            # A request without its root stays one until the root comes.
            rootless = bool(known) or self._is_old(trace_id)
            plausible = self._columns.plausible()
            traces = build_traces(spans, rootless=rootless, plausible=plausible)
        except FAULTS:
            self._set_aside(trace_id, found)
            return ()
        for span_id in known.keys() - {trace.root.span_id for trace in traces}:
            found.withdrawn[trace_id, span_id] = known[span_id]
        return traces

    def _requests(
        self, traces: Sequence[Trace], revisions: Revisions, found: Attributed
    ) -> list[Request]:
        requests = []
        for trace in traces:
            try:
                request = request_of(
                    trace,
                    critical_path(trace),
                    revisions,
                    self._columns.max_weight,
                    self._columns.longest_ns,
                )
                requests.append(as_load(request) if self._is_start(trace) else request)
            except FAULTS:
                self._set_aside(trace.root.trace_id, found)
        return requests

    def _is_start(self, trace: Trace) -> bool:
        """Return whether a trace is startup of its process, or loads a model by itself."""
        root = trace.root
        if not may_be_startup(root):
            return False
        reported = root.attributes.get(semconv.STARTUP) is True
        if reported or trace.stages[root.span_id] is Stage.LOAD:
            return True
        return self._starts is not None and self._starts.is_start(root)

    def _set_aside(self, trace_id: str, found: Attributed) -> None:
        """Count a trace that a bug of ours stops."""
        self._telemetry.faulty.inc()
        found.reasons[trace_id] = Without.FAULT
        _log.exception("trace %s is set aside, please report this", trace_id)


def _once(
    traces: Mapping[str, Iterable[Span]],
) -> tuple[dict[str, Sequence[Span]], dict[str, Sequence[Span]]]:
    """Return the spans of traces, each id once, and the other spans with the same ids."""
    spans: dict[str, Sequence[Span]] = {}
    copies: dict[str, Sequence[Span]] = {}
    for trace_id, came in traces.items():
        spans[trace_id], others = once(came)
        if others:
            copies[trace_id] = others
    return spans, copies


def _has_all(spans: Sequence[Span], needed: AbstractSet[str]) -> bool:
    """Return whether all is there that ledgers stand on; else arrivals of it are dropped."""
    return (
        needed <= {span.span_id for span in spans}
        or needed <= without_duplicates(spans)[0].keys()  # which have other ids there
    )


def _note_steps(arrived: Mapping[str, Sequence[Span]], found: Attributed) -> None:
    """Note the traces that have a shared step and no request."""
    for trace_id in arrived.keys() - found.with_request:
        steps = [span for span in arrived[trace_id] if is_shared(span)]
        if steps:
            found.steps[trace_id] = steps
            found.reasons.setdefault(trace_id, Without.SHARED_STEP)
