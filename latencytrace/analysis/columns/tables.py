"""From attributed columns to tables of requests: what follows from shapes is found out once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.build_trace import MAX_REPAIRS_OF_A_KIND
from latencytrace.analysis.columns import reported
from latencytrace.analysis.columns.facts import TELLS_TOKENS
from latencytrace.analysis.columns.paths import END, IN_STAGE, OWN_NAME, PLACE, REQUEST, TITLE
from latencytrace.analysis.columns.request_table import RequestTable, Root, Words
from latencytrace.analysis.columns.requests import TITLES, RequestColumns
from latencytrace.analysis.ledger.metric_attributes import metric_attributes
from latencytrace.analysis.ledger.requests import status_of
from latencytrace.analysis.repairs.clipping import clipping
from latencytrace.analysis.tail.cohort_attributes import MOST_ATTRIBUTES
from latencytrace.analysis.tokens.counts import FINISH_REASON, MODEL, value
from latencytrace.analysis.tokens.latency import TokenLatency
from latencytrace.analysis.trace.routes import is_health, route_of
from latencytrace.analysis.trace.weight import MOST, STATED_IN, weight_of
from latencytrace.model import MetricAttributes, Repair, Span, SpanKind, semconv
from latencytrace.model.detail import detail_named

_Column = NDArray[np.int64]
T = TypeVar("T")

_NO_CALL: Final = -2  # in the place of a shape
_MOST_REMEMBERED: Final = 65_536


class _Call(NamedTuple):
    """The part of a generation that the shape of its span decides."""

    model: str | None
    finish_reason: str | None


class Tables:
    """Makes tables of columns, and remembers what follows from shapes alone.

    Args:
        max_weight: The largest weight of a request that is believed.
    """

    def __init__(self, max_weight: int = MOST) -> None:
        self._max_weight = max_weight
        self._roots: dict[int, Root] = {}
        self._calls: dict[int, _Call] = {}
        self._metrics: dict[tuple[int, int, bool], MetricAttributes] = {}

    def of(self, columns: RequestColumns, numbers: _Column | None = None) -> RequestTable:
        """A table of requests.

        Args:
            columns: Of all.
            numbers: Of those wanted, in order; None: all.
        """
        if numbers is None:
            numbers = np.arange(len(columns))
        batch, known = columns.batch, columns.known[numbers]
        rows, trace, outermost, _ = columns.requests[numbers].T
        root, roots = _of_shapes(columns, rows, self._root, self._roots)
        metric, metrics = self._metrics_of(columns, rows, known)
        counted = columns.attributes_counted[numbers]
        is_kept = np.arange(MOST_ATTRIBUTES) < counted[:, None]
        segments = _segments(columns, numbers)
        return RequestTable(
            trace_ids=[batch.trace_ids[one] for one in trace.tolist()],
            span_id=batch.span_id[rows],
            outermost=outermost != 0,
            startup=np.zeros(len(numbers), np.bool_),
            start_ns=columns.start_ns[rows],
            duration_ns=columns.end_ns[rows] - columns.start_ns[rows],
            root=root,
            roots=roots,
            model=self._words(columns, known[:, reported.MODEL_CALL], 0),
            finish_reason=self._words(columns, known[:, reported.FINISHER], 1),
            metric=metric,
            metrics=metrics,
            known=known,
            attributes=columns.attributes[numbers][is_kept],
            attribute_first=_begins(np.minimum(counted, MOST_ATTRIBUTES)),
            attributes_left_out=np.maximum(counted - MOST_ATTRIBUTES, 0),
            pairs=columns.facts.pairs,
            repairs=_repairs(columns, numbers),
            segment_first=_begins(np.diff(columns.segment_first)[numbers]),
            segment_end_ns=segments[:, END].copy(),
            segment_stage=segments[:, IN_STAGE].copy(),
            segment_span_id=batch.span_id[columns.trees.rows[segments[:, PLACE]]],
            segment_name=_names(columns, segments),
            ledger=columns.ledger[numbers],
            weight=_weights(columns, rows, trace, _tell_weight(roots)[root], self._max_weight),
        )

    def _root(self, columns: RequestColumns, row: int) -> Root:
        shape = int(columns.batch.shape[row])
        span = _template(columns, row)
        needs_address = span.kind is SpanKind.SERVER and not span.attributes.get(
            semconv.HTTP_ROUTE
        )
        if needs_address:
            span = columns.batch.span(row)
        found = Root(
            span.service, span.instance, span.version, route_of(span), is_health(span),
            status_of(span), detail_named(span.attributes.get(semconv.DETAIL)),
            not STATED_IN.isdisjoint(span.attributes),
        )  # fmt: skip
        if shape >= 0 and not needs_address:
            self._roots[shape] = found
        return found

    def _words(self, columns: RequestColumns, rows: _Column, part: int) -> Words:
        """Return what the spans of some rows say as the model, or as the reason to finish."""
        codes = np.zeros(len(rows), np.int64)
        says = np.flatnonzero(rows != reported.UNKNOWN)
        found, calls = _of_shapes(columns, rows[says], self._call, self._calls)
        codes[says] = found + 1
        return Words(codes, [None, *(call[part] for call in calls)])

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

    def _metrics_of(
        self, columns: RequestColumns, rows: _Column, known: _Column
    ) -> tuple[_Column, list[MetricAttributes]]:
        shapes = columns.batch.shape
        calls = known[:, reported.MODEL_CALL]
        has_call = calls != reported.UNKNOWN
        has_tokens = (known[:, reported.INPUT] != reported.UNKNOWN) | (
            known[:, reported.OUTPUT] != reported.UNKNOWN
        )
        call_shapes = np.where(has_call, shapes[np.where(has_call, calls, 0)], _NO_CALL)
        codes: list[int] = []
        metrics: list[MetricAttributes] = []
        places: dict[tuple[int, int, bool], int] = {}
        keys = zip(shapes[rows].tolist(), call_shapes.tolist(), has_tokens.tolist(), strict=True)
        for at, key in enumerate(keys):
            code = places.get(key)
            if code is None:
                code = len(metrics)
                call = int(calls[at]) if has_call[at] else None
                metrics.append(self._metric_attributes(columns, int(rows[at]), call, key))
                if -1 not in key[:2]:
                    places[key] = code
            codes.append(code)
        return np.array(codes, np.int64), metrics

    def _metric_attributes(
        self,
        columns: RequestColumns,
        row: int,
        model_call: int | None,
        key: tuple[int, int, bool],
    ) -> MetricAttributes:
        found = self._metrics.get(key)
        if found is None:
            call = None if model_call is None else _template(columns, model_call)
            model = None if model_call is None else self._call(columns, model_call).model
            root = _template(columns, row)
            tokens = _tokens(model, call, 0 if key[2] else None)
            found = metric_attributes(root, tokens, status_of(root))
            if -1 not in key[:2] and len(self._metrics) < _MOST_REMEMBERED:
                self._metrics[key] = found
        return found


def _of_shapes(
    columns: RequestColumns,
    rows: _Column,
    read: Callable[[RequestColumns, int], T],
    remembered: Mapping[int, T],
) -> tuple[_Column, list[T]]:
    """Facts that are read of each row, once for all of a shape that it is remembered of.

    Returns:
        Of each row its place among the values; and these.
    """
    shapes = columns.batch.shape[rows]
    codes = np.zeros(len(rows), np.int64)
    values: list[T] = []
    for shape in np.unique(shapes).tolist():
        places = np.flatnonzero(shapes == shape)
        if shape in remembered:
            codes[places] = len(values)
            values.append(remembered[shape])
            continue
        for at, place in enumerate(places.tolist()):
            codes[place] = len(values)
            values.append(read(columns, int(rows[place])))
            if shape in remembered:
                codes[places[at:]] = codes[place]
                break
    return codes, values


def _tell_weight(roots: Sequence[Root]) -> NDArray[np.bool_]:
    return np.array([one.tells_weight for one in roots], np.bool_)


def _weights(
    columns: RequestColumns,
    rows: _Column,
    traces: _Column,
    by_attributes: NDArray[np.bool_],
    most: int,
) -> _Column | None:
    """How many requests each of some rows stands for; None: each itself."""
    batch = columns.batch
    tell = by_attributes
    if len(batch.stated):
        tell = tell | np.isin(rows, batch.stated)
    weights = np.ones(len(rows), np.int64)
    for at in np.flatnonzero(tell).tolist():
        row = int(rows[at])
        attributes = batch.span(row).attributes if by_attributes[at] else {}
        trace_id = batch.trace_ids[traces[at]]
        weights[at] = weight_of(trace_id, batch.trace_state(row), attributes, most)
    return weights if (weights != 1).any() else None


def _begins(counts: _Column) -> _Column:
    begins: _Column = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    return begins


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


def _segments(columns: RequestColumns, numbers: _Column) -> _Column:
    """The segments of some requests, in order."""
    wanted = np.zeros(len(columns), np.bool_)
    wanted[numbers] = True
    found: _Column = columns.segments[wanted[columns.segments[:, REQUEST]]]
    return found


def _names(columns: RequestColumns, segments: _Column) -> Words:
    """The names of segments, by the shapes of their spans or by what held the process up."""
    rows, title = columns.trees.rows[segments[:, PLACE]], segments[:, TITLE]
    shape, is_span = columns.batch.shape[rows].astype(np.int64), title == OWN_NAME
    # Of each its shape, title or row, with what it is: more shapes are numbered meanwhile.
    kinds = np.where(~is_span, _TITLE, np.where(shape < 0, _ROW, _SHAPE))
    which = np.choose(kinds, (shape, title, rows))
    _, first, codes = np.unique(3 * which + kinds, return_index=True, return_inverse=True)
    tell: Sequence[Callable[[int], str]] = (
        lambda number: columns.batch.shapes[number].name,
        TITLES.__getitem__,
        lambda row: columns.batch.span(row).name,
    )
    names = [tell[int(kinds[at])](int(which[at])) for at in first.tolist()]
    return Words(codes, names)


_SHAPE, _TITLE, _ROW = range(3)


def _repairs(columns: RequestColumns, numbers: _Column) -> dict[int, tuple[Repair, ...]]:
    """Of the spans that stuck out of their parents, and whose clocks were off."""
    places = (
        np.arange(len(numbers)) if columns.skewed else columns.clipped_spans[numbers].nonzero()[0]
    )
    found = {place: _repairs_of(columns, int(numbers[place])) for place in places.tolist()}
    return {place: repairs for place, repairs in found.items() if repairs}


def _repairs_of(columns: RequestColumns, number: int) -> tuple[Repair, ...]:
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
