"""The embedded store: ClickHouse's engine in this process, one folder, no server."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Self, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from latencytrace.errors import PoisonedBlockError, StoreError
from latencytrace.model import Breakdown, Request, Span, Stage
from latencytrace.model.request_columns import DurationBand, RequestColumns
from latencytrace.service.clock import now_ns
from latencytrace.service.cohort import Cohort
from latencytrace.service.otlp.span_block import SpanBlock, joined
from latencytrace.service.sql import (
    cohort_columns,
    ledger_table,
    native,
    questions,
    request_rows,
    span_rows,
)
from latencytrace.service.sql.request_rows import Void
from latencytrace.service.sql.tables import ARRIVALS, SPANS
from latencytrace.service.store import (
    ALL_DURATIONS,
    NONE_WITHDRAWN,
    DamagedPart,
    Order,
    Revisions,
    TableFormat,
    Written,
)
from latencytrace.service.stores.chdb.engine import Engine, Readers
from latencytrace.service.stores.chdb.pending_copies import NotedTraces

_log = logging.getLogger(__name__)

_SPAN_LINES = "JSONCompactEachRow"
_LINES = "JSONEachRow"
TO_KEEP = "to_keep"  # the file with the traces that are noted
MOST_TO_KEEP = 500  # traces that are noted; a copy costs 20 ms of CPU, however few they are
LINKED_WITHIN_NS = 600 * 10**9  # before a step began, its members may have begun
_SIGN = 1 << 63
_MS = 1_000_000
_Place = tuple[int, int]  # its start; when the revision was written that was counted, or is to be


class ChdbStore:
    """Implements `Store`. Make one with `open`."""

    def __init__(self, engine: Engine, to_keep: NotedTraces) -> None:
        self._engine = engine
        self._to_keep = to_keep
        self._keeping = threading.Lock()
        self._inserter = engine.connect()
        self._assembler = engine.connect()  # its reads wait for no reader's
        self._readers = Readers(engine)
        self._written_ns = int(self._assembler.query(questions.LAST_WRITTEN, "TSV"))

    @classmethod
    def open(cls, folder: Path) -> Self:
        """See `Store.open`."""
        engine = Engine.open(folder)
        return cls(engine, NotedTraces(folder / TO_KEEP))

    def insert(self, blocks: Sequence[SpanBlock]) -> None:
        """See `Store.insert`."""
        try:
            block = blocks[0] if len(blocks) == 1 else joined(blocks)
            written = native.native(block) if block.count else b""
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # a fault of ours
            raise PoisonedBlockError(f"a block cannot be written as rows: {error!r}") from error
        self._inserter.insert(native.ARRIVED, written, block.count)

    def arrived(self, trace_ids: Collection[str]) -> Mapping[str, tuple[Span, ...]]:
        """See `Store.arrived`."""
        question = span_rows.spans_of(ARRIVALS)
        lines = self._assembler.query(question, _SPAN_LINES, {"trace_ids": trace_ids})
        return _by_trace(span_rows.spans_from(lines))

    def arrived_counts(self, trace_ids: Collection[str]) -> Mapping[str, int]:
        """See `Store.arrived_counts`."""
        return self._counts(questions.ARRIVED_COUNTS, trace_ids)

    def revisions(self, trace_ids: Collection[str]) -> Revisions:
        """See `Store.revisions`."""
        lines = self._assembler.query(questions.REVISIONS, _SPAN_LINES, {"trace_ids": trace_ids})
        rows = cast(list[tuple[str, str, int]], _rows(lines))
        highest: dict[tuple[str, str], int] = {}
        for trace_id, span_id, revision in rows:
            highest[trace_id, span_id] = max(revision, highest.get((trace_id, span_id), 0))
        return highest

    def written(self, trace_ids: Collection[str]) -> Sequence[Request]:
        """See `Store.written`."""
        question = questions.written_question(request_rows.COLUMNS)
        lines = self._assembler.query(question, _LINES, {"trace_ids": trace_ids})
        return list(request_rows.requests_from(lines))

    def kept_counts(self, trace_ids: Collection[str]) -> Mapping[str, int]:
        """See `Store.kept_counts`."""
        if not self._to_keep.ids.isdisjoint(trace_ids):
            self.keep_noted()
        return self._counts(questions.KEPT_COUNTS, trace_ids)

    def unassembled(self) -> Sequence[str]:
        """See `Store.unassembled`."""
        return _firsts(self._assembler.query(questions.UNASSEMBLED, _SPAN_LINES))

    def without_ledger(self, since_ns: int, until_ns: int) -> Sequence[str]:
        """See `Store.without_ledger`."""
        stretch = {"since": since_ns, "until": until_ns}
        return _firsts(self._assembler.query(questions.WITHOUT_LEDGER, _SPAN_LINES, stretch))

    def last_written_ns(self) -> int:
        """See `Store.last_written_ns`."""
        return self._written_ns

    def uncounted(self, until_ns: int) -> Sequence[tuple[int, Request]]:
        """See `Store.uncounted`."""
        question = questions.uncounted_question(request_rows.COLUMNS)
        lines = self._assembler.query(question, _LINES, {"until": until_ns})
        return list(request_rows.written_from(lines))

    def write(
        self,
        requests: Sequence[Request],
        keep_spans_of: Collection[str],
        withdrawn: Revisions = NONE_WITHDRAWN,
        age_ns: int = 0,
        counted: Collection[tuple[str, str]] = (),
    ) -> Written:
        """See `Store.write`."""
        # Written in milliseconds, and never twice in one.
        read_ns = max(now_ns() - age_ns, self._written_ns + _MS) // _MS * _MS
        # The spans first: where a crash comes between, the trace is unassembled, and
        # all of it is written again.
        if keep_spans_of:
            with self._keeping:
                self._to_keep.add(keep_spans_of)
            if len(self._to_keep.ids) >= MOST_TO_KEEP:
                self.keep_noted()
        revised = {(one.trace_id, one.span_id): one for one in requests if one.revision > 1}
        standing = self._standing({*revised, *withdrawn, *counted})
        void = _void(standing, revised, withdrawn)
        if requests or void:
            # One whose row is lost counts as from the beginning of time.
            counted_as_ns = {key: standing[key][1] if key in standing else _MS for key in counted}
            block = request_rows.block_of(requests, void, read_ns, counted_as_ns)
            self._assembler.insert(request_rows.TARGET, block, len(requests) + len(void))
        self._written_ns = read_ns
        return Written(at_ns=read_ns, withdrawn=len(withdrawn.keys() & standing.keys()))

    def known_traces(self) -> NDArray[np.uint64]:
        """See `Store.known_traces`."""
        found = self._assembler.query(questions.KNOWN_TRACES, "RowBinary")
        return np.frombuffer(found, ">u8").astype(np.uint64).reshape(-1, 2)

    def keep(self, parts: Sequence[tuple[SpanBlock, NDArray[np.int64]]]) -> None:
        """See `Store.keep`."""
        written = b"".join(native.native(block, rows) for block, rows in parts)
        self._assembler.insert(native.KEPT, written, sum(len(rows) for _, rows in parts))

    def keep_noted(self) -> None:
        """See `Store.keep_noted`."""
        with self._keeping:
            if self._to_keep.ids:
                self._assembler.query(span_rows.KEEP, _LINES, {"trace_ids": self._to_keep.ids})
                self._to_keep.clear()

    def services(self) -> Sequence[str]:
        """See `Store.services`."""
        return _firsts(self._readers.query(questions.SERVICES, _SPAN_LINES))

    def instances(self) -> Sequence[tuple[str, str]]:
        """See `Store.instances`."""
        rows = _rows(self._readers.query(questions.INSTANCES, _SPAN_LINES))
        return [(cast(str, service), cast(str, instance)) for service, instance in rows]

    def routes(self, service: str | None) -> Sequence[str]:
        """See `Store.routes`."""
        return _firsts(self._readers.query(questions.ROUTES, _SPAN_LINES, {"service": service}))

    def breakdown(self, cohort: Cohort) -> Breakdown:
        """See `Store.breakdown`."""
        question, parameters = questions.breakdown_question(cohort)
        found = questions.breakdown_from(self._readers.query(question, _LINES, parameters))
        if all(stage.stage is not Stage.RUNTIME for stage in found.stages):
            return found
        question, parameters = questions.runtime_question(cohort)
        lines = self._readers.query(question, _LINES, parameters)
        return questions.with_runtime_parts(found, lines)

    def requests(self, cohort: Cohort, order: Order, limit: int) -> Sequence[Request]:
        """See `Store.requests`."""
        question, parameters = questions.requests_question(cohort, order, request_rows.COLUMNS)
        lines = self._readers.query(question, _LINES, {**parameters, "limit": limit})
        return list(request_rows.requests_from(lines))

    def count(self, cohort: Cohort) -> int:
        """See `Store.count`."""
        question, parameters = ledger_table.count_question(cohort)
        return int(self._readers.query(question, "TSV", parameters))

    def ledgers(self, cohort: Cohort, table_format: TableFormat) -> bytes:
        """See `Store.ledgers`."""
        question, parameters = ledger_table.table_question(cohort)
        return self._readers.query(question, ledger_table.ENGINE_FORMATS[table_format], parameters)

    def durations(self, cohort: Cohort) -> NDArray[np.int64]:
        """See `Store.durations`."""
        question, parameters = cohort_columns.durations_question(cohort)
        return np.frombuffer(self._readers.query(question, "RowBinary", parameters), np.int64)

    def cohort_columns(
        self,
        cohort: Cohort,
        bands: Sequence[DurationBand] = ALL_DURATIONS,
        *,
        attributes: bool = False,
    ) -> RequestColumns:
        """See `Store.cohort_columns`."""
        question, parameters = cohort_columns.columns_question(
            cohort, bands, attributes=attributes
        )
        answer = self._readers.query(question, cohort_columns.FORMAT, parameters)
        return cohort_columns.columns_from(answer, attributes=attributes)

    def request(self, trace_id: str, span_id: str | None) -> Request | None:
        """See `Store.request`."""
        question = questions.request_question(request_rows.COLUMNS, outermost=span_id is None)
        bound = {"trace_id": trace_id} | ({} if span_id is None else {"span_id": span_id})
        return next(request_rows.requests_from(self._readers.query(question, _LINES, bound)), None)

    def kept_spans(self, trace_id: str) -> tuple[Span, ...]:
        """See `Store.kept_spans`."""
        # Of a trace that waits to be copied, a part may have been copied before.
        waits = trace_id in self._to_keep.ids
        for table in (ARRIVALS, SPANS) if waits else (SPANS, ARRIVALS):
            lines = self._readers.query(
                span_rows.spans_of(table), _SPAN_LINES, {"trace_ids": [trace_id]}
            )
            if lines:
                return tuple(span_rows.spans_from(lines))
        return ()

    def requests_of(self, trace_ids: Collection[str]) -> Sequence[Request]:
        """See `Store.requests_of`."""
        question = questions.written_question(request_rows.COLUMNS)
        lines = self._readers.query(question, _LINES, {"trace_ids": trace_ids})
        return list(request_rows.requests_from(lines))

    def spans_at(self, places: Collection[tuple[str, str]]) -> tuple[Span, ...]:
        """See `Store.spans_at`."""
        wanted = set(places)
        found = self._spans(
            span_rows.spans_at,
            trace_ids={trace_id for trace_id, _ in wanted},
            span_ids={span_id for _, span_id in wanted},
        )
        return tuple(span for span in found if (span.trace_id, span.span_id) in wanted)

    def spans_of_id(self, span_id: str) -> tuple[Span, ...]:
        """See `Store.spans_of_id`."""
        return self._spans(span_rows.spans_of_id, span_id=span_id)

    def linking_to(self, span: Span) -> tuple[Span, ...]:
        """See `Store.linking_to`."""
        return _linking_to(span, self._spans(span_rows.spans_linking, **_stretch_before(span)))

    def _spans(self, question: Callable[[str], str], **parameters: object) -> tuple[Span, ...]:
        """What both tables answer, each span once."""
        found: dict[tuple[str, str], Span] = {}
        for table in (SPANS, ARRIVALS):
            lines = self._readers.query(question(table), _SPAN_LINES, parameters)
            for span in span_rows.spans_from(lines):
                found.setdefault((span.trace_id, span.span_id), span)
        return tuple(found.values())

    def damaged_parts(self) -> Sequence[DamagedPart]:
        """See `Store.damaged_parts`."""
        return self._engine.damaged_parts()

    def close(self) -> None:
        """See `Store.close`."""
        try:
            self.keep_noted()
        except StoreError as error:
            _log.error("spans are kept at the next start: %s", error)
        self._engine.close()

    def _counts(self, question: str, trace_ids: Collection[str]) -> Mapping[str, int]:
        lines = self._assembler.query(question, _SPAN_LINES, {"trace_ids": trace_ids})
        return dict(cast(list[tuple[str, int]], _rows(lines)))

    def _standing(self, keys: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], _Place]:
        """Where requests stand that were written before."""
        trace_ids = {trace_id for trace_id, _ in keys}
        if not trace_ids:
            return {}
        lines = self._assembler.query(questions.STANDING, _SPAN_LINES, {"trace_ids": trace_ids})
        return {
            (trace_id, span_id): (start_ns, counted_ns)
            for trace_id, span_id, start_ns, counted_ns in cast(
                list[tuple[str, str, int, int]], _rows(lines)
            )
        }


def _void(
    standing: Mapping[tuple[str, str], _Place],
    revised: Mapping[tuple[str, str], Request],
    withdrawn: Revisions,
) -> list[Void]:
    """The rows of requests that are withdrawn, or that start at another time by now."""
    moved = [
        Void(*key, standing[key][0], request.revision)
        for key, request in revised.items()
        if key in standing and request.start_ns != standing[key][0]
    ]
    return moved + [
        Void(*key, standing[key][0], revision + 1)
        for key, revision in withdrawn.items()
        if key in standing
    ]


def _stretch_before(span: Span) -> Mapping[str, object]:
    """What the question for those that link to a span binds."""
    since, until = _in_column(
        max(span.start_ns - LINKED_WITHIN_NS, 0), max(span.end_ns, span.start_ns)
    )
    return {"span_id": span.span_id, "since": since, "until": until}


def _linking_to(span: Span, found: Iterable[Span]) -> tuple[Span, ...]:
    place = (span.trace_id, span.span_id)
    return tuple(
        one for one in found if any((link.trace_id, link.span_id) == place for link in one.links)
    )


def _rows(lines: bytes) -> list[list[object]]:
    return [cast(list[object], orjson.loads(line)) for line in lines.splitlines()]


def _firsts(lines: bytes) -> list[str]:
    return [cast(str, row[0]) for row in _rows(lines)]


def _by_trace(spans: Iterable[Span]) -> dict[str, tuple[Span, ...]]:
    """Spans that come in order of their trace, taken together."""
    return {
        trace_id: tuple(group)
        for trace_id, group in groupby(spans, key=lambda span: span.trace_id)
    }


def _in_column(since_ns: int, until_ns: int) -> tuple[int, int]:
    """Bounds as a signed column holds times of 64 bits; all of it where they span its edge."""
    since, until = ((time_ns ^ _SIGN) - _SIGN for time_ns in (since_ns, until_ns))
    return (since, until) if since <= until else (-_SIGN, _SIGN - 1)
