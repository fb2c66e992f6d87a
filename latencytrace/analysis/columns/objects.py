"""Requests as objects, made from columns: about 1 µs of CPU for each of their spans."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.build_trace import MAX_REPAIRS_OF_A_KIND
from latencytrace.analysis.columns import told
from latencytrace.analysis.columns.facts import TELLS_TOKENS
from latencytrace.analysis.columns.paths import (
    BEGIN,
    END,
    IN_STAGE,
    OWN_NAME,
    PLACE,
    REQUEST,
    TITLE,
)
from latencytrace.analysis.columns.requests import TITLES, RequestColumns
from latencytrace.analysis.ledger.metric_attributes import metric_attributes
from latencytrace.analysis.ledger.requests import status_of
from latencytrace.analysis.repairs.clipping import clipping
from latencytrace.analysis.tail.cohort_attributes import MOST_ATTRIBUTES
from latencytrace.analysis.tokens.counts import FINISH_REASON, MODEL, value
from latencytrace.analysis.tokens.latency import TokenLatency
from latencytrace.analysis.trace.routes import is_health, route_of
from latencytrace.model import (
    FirstTokenOf,
    MetricAttributes,
    Repair,
    Request,
    RequestStatus,
    Segment,
    Span,
    SpanKind,
    semconv,
)
from latencytrace.model.ledger import ledger_of
from latencytrace.model.stage import STAGES

Revisions = Mapping[tuple[str, str], int]

_OF = {told.OF_CALLER: FirstTokenOf.CALLER, told.OF_MODEL: FirstTokenOf.MODEL}
_DIGITS = 16  # of a span's id
_MOST_REMEMBERED: Final = 65_536


class _Root(NamedTuple):
    """The part of a request that the shape of its own span decides."""

    span: Span
    route: str
    health: bool
    status: RequestStatus


class _Call(NamedTuple):
    """The part of a generation that the shape of its span decides."""

    model: str | None
    finish_reason: str | None


class Requests:
    """Makes requests of columns, and remembers what follows from shapes alone."""

    def __init__(self) -> None:
        self._roots: dict[int, _Root] = {}
        self._calls: dict[int, _Call] = {}
        self._metrics: dict[tuple[int, int, bool], MetricAttributes] = {}

    def of(
        self,
        columns: RequestColumns,
        revisions: Revisions,
        numbers: NDArray[np.int64] | None = None,
    ) -> list[Request]:
        """Requests, in order.

        Args:
            columns: Of all.
            revisions: The highest revision written so far, by trace id and request span id.
            numbers: Of those wanted, in order; None: all.
        """
        if numbers is None:
            numbers = np.arange(len(columns))
        return [
            self._one(columns, number, segments, revisions)
            for number, segments in zip(numbers.tolist(), _segments(columns, numbers), strict=True)
        ]

    def _one(
        self,
        columns: RequestColumns,
        number: int,
        segments: tuple[Segment, ...],
        revisions: Revisions,
    ) -> Request:
        batch = columns.batch
        row, trace, outermost, _ = columns.requests[number].tolist()
        known = [None if one == told.UNKNOWN else one for one in columns.known[number].tolist()]
        counted = int(columns.attributes_counted[number])
        model_call, finisher = known[told.MODEL_CALL], known[told.FINISHER]
        finish_reason = None if finisher is None else self._call(columns, finisher).finish_reason
        root = self._root(columns, row)
        trace_id, span_id = batch.trace_ids[trace], f"{int(batch.span_id[row]):016x}"
        start_ns = int(columns.start_ns[row])
        first_of, cold_start = known[told.FIRST_TOKEN_OF], known[told.COLD_START]
        attributes = columns.attributes[number, :counted].tolist()
        return Request(
            trace_id=trace_id,
            span_id=span_id,
            outermost=bool(outermost),
            service=root.span.service,
            instance=root.span.instance,
            route=root.route,
            model=None if model_call is None else self._call(columns, model_call).model,
            version=root.span.version,
            status=root.status,
            start_ns=start_ns,
            duration_ns=int(columns.end_ns[row]) - start_ns,
            revision=revisions.get((trace_id, span_id), 0) + 1,
            time_to_first_token_ns=known[told.FIRST_TOKEN],
            time_to_first_token_of=None if first_of is None else _OF[first_of],
            model_time_to_first_token_ns=known[told.MODELS_FIRST_TOKEN],
            time_per_output_token_ns=known[told.PER_TOKEN],
            input_tokens=known[told.INPUT],
            cached_input_tokens=known[told.CACHED],
            output_tokens=known[told.OUTPUT],
            finish_reason=finish_reason,
            batch_size=known[told.BATCH_SIZE],
            queue_depth=known[told.QUEUE_DEPTH],
            concurrency=known[told.CONCURRENCY],
            preemptions=known[told.REQUEST_PREEMPTIONS],
            cold_start=None if cold_start is None else bool(cold_start),
            health=root.health,
            ledger=ledger_of(segments),
            segments=segments,
            repairs=_repairs(columns, number),
            attributes=columns.facts.pairs.at(attributes),
            attributes_left_out=max(counted - MOST_ATTRIBUTES, 0),
            metric_attributes=self._metric_attributes(columns, row, model_call, known),
        )

    def _root(self, columns: RequestColumns, row: int) -> _Root:
        shape = int(columns.batch.shape[row])
        found = self._roots.get(shape)
        if found is None:
            span = _template(columns, row)
            needs_address = span.kind is SpanKind.SERVER and not span.attributes.get(
                semconv.HTTP_ROUTE
            )
            if needs_address:
                span = columns.batch.span(row)
            found = _Root(span, route_of(span), is_health(span), status_of(span))
            if shape >= 0 and not needs_address:
                self._roots[shape] = found
        return found

    def _call(self, columns: RequestColumns, row: int) -> _Call:
        shape = int(columns.batch.shape[row])
        found = self._calls.get(shape)
        if found is None:
            in_own_words = columns.facts.table[columns.facts.kind[row], TELLS_TOKENS]
            span = columns.batch.span(row) if in_own_words else _template(columns, row)
            model, finish_reason = value(span, MODEL), value(span, FINISH_REASON)
            found = _Call(
                None if model is None else str(model),
                None if finish_reason is None else str(finish_reason),
            )
            if shape >= 0 and not in_own_words:
                self._calls[shape] = found
        return found

    def _metric_attributes(
        self,
        columns: RequestColumns,
        row: int,
        model_call: int | None,
        known: Sequence[int | None],
    ) -> MetricAttributes:
        shapes = columns.batch.shape
        has_tokens = known[told.INPUT] is not None or known[told.OUTPUT] is not None
        call_shape = -2 if model_call is None else int(shapes[model_call])
        key = (int(shapes[row]), call_shape, has_tokens)
        found = self._metrics.get(key)
        if found is None:
            call = None if model_call is None else _template(columns, model_call)
            model = None if model_call is None else self._call(columns, model_call).model
            root = _template(columns, row)
            tokens = _tokens(model, call, 0 if has_tokens else None)
            found = metric_attributes(root, tokens, status_of(root))
            if -1 not in key[:2] and len(self._metrics) < _MOST_REMEMBERED:
                self._metrics[key] = found
        return found


def _template(columns: RequestColumns, row: int) -> Span:
    return columns.facts.template(columns.batch, row)


def _tokens(model: str | None, call: Span | None, tokens: int | None) -> TokenLatency:
    return TokenLatency(
        model=model,
        model_call=call,
        time_to_first_token_ns=None,
        time_to_first_token_of=None,
        model_time_to_first_token_ns=None,
        time_per_output_token_ns=None,
        input_tokens=tokens,
        cached_input_tokens=None,
        output_tokens=None,
        finish_reason=None,
        batch_size=None,
    )


def _segments(columns: RequestColumns, numbers: NDArray[np.int64]) -> list[tuple[Segment, ...]]:
    batch = columns.batch
    wanted = np.zeros(len(columns), np.bool_)
    wanted[numbers] = True
    found = columns.segments[wanted[columns.segments[:, REQUEST]]]
    rows = columns.trees.rows[found[:, PLACE]]
    ids = batch.span_id[rows].astype(">u8").tobytes().hex()
    names = [
        batch.shapes[shape].name if shape >= 0 else columns.facts.odd_ones[row].name
        for shape, row in zip(batch.shape[rows].tolist(), rows.tolist(), strict=True)
    ]
    for at in np.flatnonzero(found[:, TITLE] != OWN_NAME).tolist():
        names[at] = TITLES[found[at, TITLE]]
    segments = _made(
        len(found),
        start_ns=found[:, BEGIN].tolist(),
        end_ns=found[:, END].tolist(),
        stage=map(STAGES.__getitem__, found[:, IN_STAGE].tolist()),
        span_id=[ids[at : at + _DIGITS] for at in range(0, len(ids), _DIGITS)],
        name=names,
    )
    lengths = np.diff(columns.segment_first)[numbers]
    ends = np.cumsum(lengths)
    return [
        tuple(segments[begin:end])
        for begin, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True)
    ]


def _made(count: int, **columns: Iterable[object]) -> list[Segment]:
    """Segments made field by field, which takes half as long as one by one."""
    segments = list(map(object.__new__, repeat(Segment, count)))
    for name, values in columns.items():
        deque(map(vars(Segment)[name].__set__, segments, values), maxlen=0)
    return segments


def _repairs(columns: RequestColumns, number: int) -> tuple[Repair, ...]:
    """Of the spans that stuck out of their parents, and whose clocks were off."""
    if not (columns.clipped_spans[number] or columns.skewed):
        return ()
    first, beyond = columns.trees.first[number : number + 2].tolist()
    rows = columns.trees.rows
    repairs: list[Repair] = []
    if columns.clipped_spans[number]:
        places = first + np.flatnonzero(columns.trees.clipped[first:beyond])
        places = places[np.argsort(columns.batch.span_id[rows[places]])]
        shown = [_clipping(columns, place) for place in places[:MAX_REPAIRS_OF_A_KIND].tolist()]
        repairs += _listed(columns, rows[first], shown, len(places))
    if columns.skewed:
        moved = [
            columns.skewed[row] for row in rows[first:beyond].tolist() if row in columns.skewed
        ]
        moved.sort(key=lambda repair: repair.span_id)
        repairs += _listed(columns, rows[first], moved[:MAX_REPAIRS_OF_A_KIND], len(moved))
    return tuple(repairs)


def _listed(
    columns: RequestColumns, root: int, shown: Sequence[Repair], count: int
) -> Iterator[Repair]:
    """The first repairs of a kind, and how many more there are."""
    yield from shown
    if count > len(shown):
        yield Repair(
            kind=shown[0].kind,
            span_id=f"{int(columns.batch.span_id[root]):016x}",
            detail=f"and {count - len(shown)} more",
        )


def _clipping(columns: RequestColumns, place: int) -> Repair:
    batch = columns.batch
    row, above = int(columns.trees.rows[place]), int(columns.trees.above[place])
    span = replace(_template(columns, row), span_id=f"{int(batch.span_id[row]):016x}")
    parent = _template(columns, int(columns.trees.rows[above]))
    sent = int(columns.start_ns[row]), int(columns.end_ns[row])
    return clipping(span, parent.name, sent, _extent(columns, above))


def _extent(columns: RequestColumns, place: int) -> tuple[int, int]:
    return int(columns.trees.start_ns[place]), int(columns.trees.end_ns[place])
