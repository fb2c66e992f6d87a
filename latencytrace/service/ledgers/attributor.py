"""Traces that are due, from their spans to the ledgers in the store."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, compress

from latencytrace.analysis.columns.objects import WithTable
from latencytrace.analysis.columns.request_table import RequestTable
from latencytrace.errors import PoisonedBlockError, StoreError
from latencytrace.model import Request, Span
from latencytrace.service.ledgers.attribution import FAULTS, Attributed, Attribution
from latencytrace.service.ledgers.column_attribution import ColumnAttribution
from latencytrace.service.ledgers.held_spans import Parts, by_block, in_few_blocks, rooted_in
from latencytrace.service.ledgers.open_traces import OpenTraces
from latencytrace.service.ledgers.redelivery import apart_from_resent, grown
from latencytrace.service.ledgers.retention import SpanKeeping
from latencytrace.service.metrics.settling import Settling
from latencytrace.service.metrics.span_account import Without
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.objectives.matching import ObjectiveIndex
from latencytrace.service.store import Revisions, Store

_log = logging.getLogger(__name__)
_OBJECTS_MATTER = 8  # times as costly are they, at least


class Attributor:
    """Reads, attributes and writes traces.

    Args:
        store: Where spans and requests are kept.
        traces: Those that are open.
        settling: Takes what was written.
        telemetry: Counts it.
        now_ns: A clock that is never set back.
        span_keeping: Which requests keep their spans.
        objectives: The spans of requests that violate one are kept.
        on_spans: Takes spans; of those without a device's attributes not all.
        columns: Attributes most of them.
        on_rootless: Takes traces that were attributed without their root, where the store is
            shared.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what it is made of
        self,
        store: Store,
        traces: OpenTraces,
        settling: Settling,
        telemetry: Telemetry,
        now_ns: Callable[[], int],
        span_keeping: SpanKeeping,
        objectives: ObjectiveIndex,
        on_spans: Callable[[Iterable[Span]], None],
        columns: ColumnAttribution,
        on_rootless: Callable[[Collection[str]], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._on_rootless = on_rootless
        self._traces = traces
        self._settling = settling
        self._telemetry = telemetry
        self._now_ns = now_ns
        self._span_keeping = span_keeping
        self._objectives = objectives
        self._on_spans = on_spans
        self._attribution = Attribution(telemetry, traces.is_old, store.instances, columns)
        self.is_fast = False  # of the latest traces, most went by columns
        self.fault: StoreError | None = None  # of the store, at the latest batch
        self.recovering: set[str] = set()  # traces that had no ledger
        self._in_doubt: set[tuple[str, str]] = set()  # requests that may have been written
        self.counted_before: set[str] = set()  # traces whose ledgers were lost

    def attribute(self, taken: Sequence[str]) -> bool:
        """Attribute traces that were taken, later if the store fails; whether it took them.

        What stops a batch is looked for by halves, and costs its own trace alone.
        """
        left = set(taken)  # to be given back
        halves: tuple[Sequence[str], ...] = ()
        try:
            self._attribute(taken)
            left.clear()
            self.fault = None
        except (PoisonedBlockError, *FAULTS):
            halves = self._halves(taken)
            left.clear()
        except StoreError as error:
            self.fault = error
            self._telemetry.store_errors.inc()
            _log.error("%d traces are attributed later: %s", len(left), error)
            return False
        finally:
            self._traces.again(left)
        return sum(self.attribute(half) for half in halves) == len(halves)

    def attribute_all(self, taken: Sequence[str], most: int) -> None:
        """Attribute traces, so many at once; `fault` tells of those that the store refuses."""
        faults = []
        for start in range(0, len(taken), most):
            self.attribute(taken[start : start + most])
            faults.append(self.fault)
        self.fault = next(filter(None, faults), self.fault)

    def _halves(self, taken: Sequence[str]) -> tuple[Sequence[str], ...]:
        """Part a batch that cannot be attributed; a trace alone is set aside."""
        left = self._traces.being_attributed(taken)  # others are open again
        if len(left) > 1:
            return left[: len(left) // 2], left[len(left) // 2 :]
        if not left:
            return ()
        self._traces.without(left, dict.fromkeys(left, Without.FAULT))
        self._telemetry.faulty.inc(len(left))
        _log.exception("%s is set aside, please report this", left)
        return ()

    def _attribute(self, taken: Sequence[str]) -> None:
        read_ns = self._now_ns()
        held = self._traces.held(taken)
        arrived, revisions, reopened = self._read([one for one in taken if one not in held])
        found = self._attribution.attributed(arrived, revisions, held)
        self.is_fast = _OBJECTS_MATTER * len(found.spans) < len(taken)
        self._on_spans(chain(found.device_spans, *found.spans.values()))
        with_request = found.with_request
        requests, resent = apart_from_resent(found.requests, self._store)
        kept = self._kept(requests, found.table)
        for trace_id, steps in found.steps.items():
            kept.update(trace_id for step in steps if self._span_keeping.keeps_step(step))
        # What was sent again is written again too, or the next start would take it up again.
        kept |= grown(resent, found.spans, self._store)
        self._keep([held[one] for one in kept if one in held], read_ns)
        if rest := self._traces.unstored.claimed(with_request - kept):
            self._store.insert(rest, self._now_ns() - read_ns)
        self._traces.doubt(with_request)
        self._write(requests, resent, found, kept - held.keys(), read_ns)
        self._traces.unstored.written(with_request | kept)
        self._traces.attributed(with_request)
        self._traces.left(found.starts)
        done = set(taken) - reopened
        self._traces.without(done - with_request, found.reasons)
        self._telemetry.recovered.inc(len(self.recovering & with_request))
        if self._store.is_shared:
            in_store = (one for one, spans in arrived.items() if any(map(_is_root, spans)))
            self._on_rootless(done - rooted_in(held.values()) - set(in_store))
        self.recovering -= done
        self.counted_before -= done

    def _read(self, taken: Sequence[str]) -> tuple[dict[str, Sequence[Span]], Revisions, set[str]]:
        """The spans and revisions of traces from the store, and the traces that are open again."""
        if not taken:
            return {}, {}, set()
        shown = self._store.arrived(taken)
        reopened = self._reopened(taken, shown)
        arrived: dict[str, Sequence[Span]] = {
            one: spans for one, spans in shown.items() if one not in reopened
        }
        return arrived, self._store.revisions(set(taken) - reopened), reopened

    def _reopened(self, taken: Iterable[str], shown: Mapping[str, Sequence[Span]]) -> set[str]:
        """Open traces again of which the store does not show all spans that it took."""
        short = self._traces.short({one: len(shown.get(one, ())) for one in taken})
        if not short:
            return set()
        counts = self._store.arrived_counts(short)  # what came twice is one span, two arrivals
        short = self._traces.short({one: counts.get(one, 0) for one in short})
        reopened = self._traces.missed(short)
        if reopened:
            _log.error("of %d traces the store does not show all spans yet", len(reopened))
        return reopened

    def _kept(self, requests: Sequence[Request], table: RequestTable | None) -> set[str]:
        """The traces that keep their spans, for one of their requests."""
        kept = {
            request.trace_id
            for request in requests
            if self._span_keeping.keeps(request) or self._objectives.are_violated(request)
        }
        if table is None:
            return kept
        keeps = self._span_keeping.keeps_of(table)
        if not keeps.all():
            keeps |= self._objectives.violated_in(table)
        return kept.union(compress(table.trace_ids, keeps.tolist()))

    def _keep(self, traces: Iterable[Parts], read_ns: int) -> None:
        """Keep the spans of traces that memory holds."""
        if blocks := by_block(traces):
            self._store.keep(list(in_few_blocks(blocks)), self._now_ns() - read_ns)

    def _write(
        self,
        requests: Sequence[Request],
        resent: Sequence[Request],
        found: Attributed,
        kept: Collection[str],
        read_ns: int,
    ) -> None:
        """Keep ledgers, and hold them until they have settled."""
        known = [*(request for request in requests if request.revision > 1), *resent]
        # What was lost with a part of the store was counted, unless it still waits for that.
        known += [one for one in requests if one.trace_id in self.counted_before]
        counted = self._settling.counted(known) - self._in_doubt
        age_ns = self._now_ns() - read_ns
        written = [*requests, *resent]
        withdrawn, table = found.withdrawn, found.table
        all_written = written if table is None else WithTable(written, table)
        try:
            done = self._store.write(all_written, kept, withdrawn, age_ns, counted)
        except StoreError:  # it may have kept some of them, which are not counted yet
            self._in_doubt |= _keys(written, table) - counted
            raise
        if self._in_doubt:
            self._in_doubt -= _keys(written, table)
        self._settling.withdraw(withdrawn)
        uncounted = [one for one in written if (one.trace_id, one.span_id) not in counted]
        self._settling.add(uncounted, done.at_ns, table)
        self._telemetry.withdrawn.inc(done.withdrawn)
        revised = [one for one in requests if (one.trace_id, one.span_id) in counted]
        self._telemetry.revised.inc(len(revised))


def _is_root(span: Span) -> bool:
    return span.parent_id is None


def _keys(requests: Iterable[Request], table: RequestTable | None) -> set[tuple[str, str]]:
    keys = {(one.trace_id, one.span_id) for one in requests}
    if table is not None:
        span_ids = (f"{span_id:016x}" for span_id in table.span_id.tolist())
        keys.update(zip(table.trace_ids, span_ids, strict=True))
    return keys
