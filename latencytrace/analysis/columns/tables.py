"""From attributed columns to tables of requests."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.build_trace import MAX_REPAIRS_OF_A_KIND
from latencytrace.analysis.columns import reported
from latencytrace.analysis.columns.critical_paths import (
    END,
    IN_STAGE,
    OWN_NAME,
    PLACE,
    REQUEST,
    TITLE,
)
from latencytrace.analysis.columns.facts import TELLS_TOKENS
from latencytrace.analysis.columns.keys import ADDRESSES, CODES, OF_CALLS, OF_REQUESTS, having
from latencytrace.analysis.columns.request_table import RequestTable, Root, Words
from latencytrace.analysis.columns.requests import TITLES, RequestColumns
from latencytrace.analysis.ledger.metric_attributes import (
    OfCall,
    OfRoot,
    of_call,
    of_parts,
    of_root,
)
from latencytrace.analysis.ledger.requests import status_of
from latencytrace.analysis.repairs.clipping import clipping
from latencytrace.analysis.tail.cohort_attributes import MOST_ATTRIBUTES
from latencytrace.analysis.trace.routes import is_health, route_of
from latencytrace.analysis.trace.weight import MOST, STATED_IN, weight_of
from latencytrace.model import MetricAttributes, Repair, RequestStatus, semconv
from latencytrace.model.detail import TraceDetail, detail_named
from latencytrace.model.span_batch import TEXT, SpanBatch

_Column = NDArray[np.int64]
T = TypeVar("T")

_MOST_REMEMBERED: Final = 16_384
_ODD_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)  # mixes kinds and numbers
_OF_REQUESTS: Final = having(OF_REQUESTS | STATED_IN)
_ADDRESSES: Final = having(frozenset(ADDRESSES))
_OF_CALLS: Final = having(OF_CALLS)


class _Face(NamedTuple):
    """The part of a request that its own span decides, its resource aside."""

    route: str
    health: bool
    status: RequestStatus
    detail: TraceDetail
    tells_weight: bool  # its attributes do, maybe
    metrics: OfRoot


class Tables:
    """Makes tables of columns, and remembers what many requests have in common.

    Args:
        max_weight: The largest weight of a request that is believed.
    """

    def __init__(self, max_weight: int = MOST) -> None:
        self._max_weight = max_weight
        self._faces: dict[int, _Face] = {}
        self._calls: dict[int, OfCall] = {}

    def of(self, columns: RequestColumns, numbers: _Column | None = None) -> RequestTable:
        """A table of requests.

        Args:
            numbers: Numbers of the wanted rows, in order; None: all.
        """
        if numbers is None:
            numbers = np.arange(len(columns))
        batch, known = columns.batch, columns.known[numbers]
        rows, trace, outermost, _ = columns.requests[numbers].T
        face, faces = self._faces_of(batch, rows)
        root, roots = _roots(batch, rows, face, faces)
        metric, metrics = self._metrics(columns, known, face, faces)
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
            model=columns.models.of_rows(known[:, reported.MODEL_CALL]),
            finish_reason=columns.finish_reasons.of_rows(known[:, reported.FINISHER]),
            metric=metric,
            metrics=metrics,
            known=known,
            repairs=_repairs(columns, numbers),
            segment_first=_begins(np.diff(columns.segment_first)[numbers]),
            segment_end_ns=segments[:, END].copy(),
            segment_stage=segments[:, IN_STAGE].copy(),
            segment_span_id=batch.span_id[columns.trees.rows[segments[:, PLACE]]],
            segment_name=_names(columns, segments),
            ledger=columns.ledger[numbers],
            after=None if columns.after is None else columns.after[numbers],
            weight=_weights(columns, rows, trace, _tell_weight(roots)[root], self._max_weight),
            **_attributes(columns, numbers),
        )

    def _faces_of(self, batch: SpanBatch, rows: _Column) -> tuple[_Column, list[_Face]]:
        """The faces of requests by their own spans; of each its place among them."""
        carried = batch.carried
        route = np.flatnonzero(
            (carried.code == CODES[semconv.HTTP_ROUTE]) & (carried.kind == TEXT)
        )
        no_route = np.isin(rows, carried.row[route], invert=True)
        keys = _combined(batch, rows, _OF_REQUESTS) + batch.name[rows].astype(np.uint64)
        keys[no_route] += _combined(batch, rows[no_route], _ADDRESSES)

        def face(at: int) -> _Face:
            span = batch.span(int(rows[at]))
            status = status_of(span)
            return _Face(
                route_of(span), is_health(span), status,
                detail_named(span.attributes.get(semconv.DETAIL)),
                not STATED_IN.isdisjoint(span.attributes), of_root(span, status),
            )  # fmt: skip

        return _each(keys, face, self._faces)

    def _metrics(
        self, columns: RequestColumns, known: _Column, face: _Column, faces: Sequence[_Face]
    ) -> tuple[_Column, list[MetricAttributes]]:
        rows = known[:, reported.MODEL_CALL]
        calls = np.flatnonzero(rows != reported.UNKNOWN)
        call, calls_made = self._calls_of(columns, rows[calls])
        call_of = np.full(len(rows), len(calls_made))  # behind the last: none
        call_of[calls] = call
        unknown = (known[:, [reported.INPUT, reported.OUTPUT]] == reported.UNKNOWN).all(axis=1)
        keys = (face * (len(calls_made) + 1) + call_of) * 2 + ~unknown
        _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
        every: Sequence[OfCall | None] = [*calls_made, None]
        return codes, [
            of_parts(faces[face[at]].metrics, every[call_of[at]], not unknown[at])
            for at in first.tolist()
        ]

    def _calls_of(self, columns: RequestColumns, rows: _Column) -> tuple[_Column, list[OfCall]]:
        """The calls of models; of each row its place among them."""
        batch = columns.batch
        keys = _combined(batch, rows, _OF_CALLS)
        # What engines tell in words of their own may differ in any of them.
        own = np.flatnonzero(columns.facts.of_rows(TELLS_TOKENS)[rows])
        keys[own] += (batch.span_id[rows[own]] | np.uint64(1)) * _ODD_FACTOR

        def call(at: int) -> OfCall:
            row = int(rows[at])
            return of_call(batch.span(row), columns.models.text(row))

        return _each(keys, call, self._calls)


def _each(
    keys: NDArray[np.uint64], read: Callable[[int], T], remembered: dict[int, T]
) -> tuple[_Column, list[T]]:
    """Facts that are read of a row, once for all of one key.

    Returns:
        Of each row its place among the values; and these.
    """
    distinct, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    values: list[T] = []
    for key, at in zip(distinct.tolist(), first.tolist(), strict=True):
        found = remembered.get(key)
        if found is None:
            if len(remembered) >= _MOST_REMEMBERED:
                remembered.clear()
            found = remembered[key] = read(at)
        values.append(found)
    return codes, values


def _combined(batch: SpanBatch, rows: _Column, wanted: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """The same number for rows of one shape that say the same by some keys, whatever the order."""
    carried = batch.carried
    counts = carried.count[rows]
    ends = np.cumsum(counts)
    places = np.repeat(carried.begin[rows] - (ends - counts), counts) + np.arange(counts.sum())
    numbers = carried.number[places].astype(np.uint64) + carried.kind[places].astype(np.uint64)
    numbers = np.where(wanted[carried.code[places]], numbers * _ODD_FACTOR, np.uint64(0))
    sums = np.concatenate(([np.uint64(0)], np.cumsum(numbers, dtype=np.uint64)))
    shapes = batch.shape[rows].astype(np.uint64) * _ODD_FACTOR
    found: NDArray[np.uint64] = sums[ends] - sums[ends - counts] + shapes
    return found


def _roots(
    batch: SpanBatch, rows: _Column, face: _Column, faces: Sequence[_Face]
) -> tuple[_Column, list[Root]]:
    """Return what the own spans of requests decide, once each, and the place of each request's."""
    resource = batch.resource[rows]
    keys = face * len(batch.resources) + resource
    _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    roots = []
    for at in first.tolist():
        of, one = batch.resources[resource[at]], faces[face[at]]
        roots.append(
            Root(
                of.service, of.instance, of.version, one.route, one.health, one.status, one.detail,
                one.tells_weight,
            )
        )  # fmt: skip
    return codes, roots


class _Attributes(TypedDict):
    attribute_first: _Column
    attribute_key: Words
    attribute_texts: NDArray[np.uint8]
    attribute_text_first: _Column
    attributes_left_out: _Column


def _attributes(columns: RequestColumns, numbers: _Column) -> _Attributes:
    counted, carried = columns.attributes_counted[numbers], columns.batch.carried
    is_kept = np.arange(MOST_ATTRIBUTES) < counted[:, None]
    places = columns.attributes[numbers][is_kept]
    key, keys = carried.keys(places)
    texts, sizes = carried.texts(places)
    return {
        "attribute_first": _begins(np.minimum(counted, MOST_ATTRIBUTES)),
        "attribute_key": Words(key, keys),
        "attribute_texts": np.frombuffer(texts, np.uint8),
        "attribute_text_first": _begins(sizes),
        "attributes_left_out": np.maximum(counted - MOST_ATTRIBUTES, 0),
    }


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


def _segments(columns: RequestColumns, numbers: _Column) -> _Column:
    wanted = np.zeros(len(columns), np.bool_)
    wanted[numbers] = True
    found: _Column = columns.segments[wanted[columns.segments[:, REQUEST]]]
    return found


def _names(columns: RequestColumns, segments: _Column) -> Words:
    """The names of segments: of their spans, or of what held the process up."""
    batch = columns.batch
    rows, title = columns.trees.rows[segments[:, PLACE]], segments[:, TITLE]
    which = np.where(title == OWN_NAME, batch.name[rows], -1 - title)
    _, first, codes = np.unique(which, return_index=True, return_inverse=True)
    names = [
        batch.name_of(int(rows[at])) if title[at] == OWN_NAME else TITLES[title[at]]
        for at in first.tolist()
    ]
    return Words(codes, names)


def _repairs(columns: RequestColumns, numbers: _Column) -> dict[int, tuple[Repair, ...]]:
    """Of the spans that stuck out of their parents, and whose clocks were off."""
    rows, skewed = columns.trees.rows, columns.skewed
    clipped = _by_request(columns, columns.trees.clipped, partial(_clippings, columns))
    moved: dict[int, list[Repair]] = {}
    if skewed:
        is_moved = np.isin(rows, np.fromiter(skewed, np.int64, len(skewed)))
        moved = _by_request(
            columns, is_moved, lambda places: map(skewed.__getitem__, rows[places].tolist())
        )
    return {
        place: (*clipped.get(number, ()), *moved.get(number, ()))
        for place, number in enumerate(numbers.tolist())
        if number in clipped or number in moved
    }


def _by_request(
    columns: RequestColumns,
    is_reported: NDArray[np.bool_],
    repairs_of: Callable[[_Column], Iterable[Repair]],
) -> dict[int, list[Repair]]:
    """The first repairs of a kind of each request, and how many more there are."""
    first, rows, span_id = columns.trees.first, columns.trees.rows, columns.batch.span_id
    places = np.flatnonzero(is_reported)
    places = places[np.lexsort((span_id[rows[places]], _request_of(first, places)))]
    requests, begin, counts = np.unique(
        _request_of(first, places), return_index=True, return_counts=True
    )
    is_shown = np.arange(len(places)) - np.repeat(begin, counts) < MAX_REPAIRS_OF_A_KIND
    shown = iter(repairs_of(places[is_shown]))
    found: dict[int, list[Repair]] = {}
    for number, count in zip(requests.tolist(), counts.tolist(), strict=True):
        found[number] = list(islice(shown, min(count, MAX_REPAIRS_OF_A_KIND)))
        if count > MAX_REPAIRS_OF_A_KIND:
            root, more = int(span_id[rows[first[number]]]), count - MAX_REPAIRS_OF_A_KIND
            kind = found[number][0].kind
            found[number].append(
                Repair(kind=kind, span_id=f"{root:016x}", detail=f"and {more} more")
            )
    return found


def _request_of(first: _Column, places: _Column) -> _Column:
    return np.searchsorted(first, places, side="right") - 1


def _clippings(columns: RequestColumns, places: _Column) -> Iterable[Repair]:
    trees, batch = columns.trees, columns.batch
    rows, above = trees.rows[places], trees.above[places]
    ends = np.stack((rows, trees.rows[above]), axis=1)
    _, first, which = np.unique(batch.name[ends], return_index=True, return_inverse=True)
    names = [batch.name_of(row) for row in ends.reshape(-1)[first].tolist()]
    return map(
        clipping,
        [f"{one:016x}" for one in batch.span_id[rows].tolist()],
        [(names[one], names[other]) for one, other in which.reshape(-1, 2).tolist()],
        zip(columns.start_ns[rows].tolist(), columns.end_ns[rows].tolist(), strict=True),
        zip(trees.start_ns[above].tolist(), trees.end_ns[above].tolist(), strict=True),
    )
