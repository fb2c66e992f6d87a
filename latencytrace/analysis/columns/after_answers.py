"""Ledgers of what requests went on with after their ends, over columns.

`analysis.ledger.after_answer` is the oracle, and says why each step is taken. Of a request that
did not go on it costs one comparison a span.
"""

from typing import Final, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns import critical_paths
from latencytrace.analysis.columns.facts import CLOCK, HANG_UP, MESSAGE, FactsOfBatch
from latencytrace.analysis.ledger.after_answer import LEAST_NS, MOST_ABOVE
from latencytrace.model import Stage
from latencytrace.model.stage import STAGES

_Column = NDArray[np.int64]
_Flags = NDArray[np.bool_]

_UNATTRIBUTED: Final = STAGES.index(Stage.UNATTRIBUTED)
_NOWHERE: Final = -1
_SIDES: Final[tuple[Literal["left"], Literal["right"]]] = ("left", "right")


class _Laid(Protocol):
    """Columns of `requests.Trees`, by place."""

    @property
    def first(self) -> _Column: ...
    @property
    def rows(self) -> _Column: ...
    @property
    def above(self) -> _Column: ...
    @property
    def stage(self) -> _Column: ...
    @property
    def children(self) -> _Column: ...


class _Spans(NamedTuple):
    """The spans of the requests with work after their ends, by place among them."""

    request: _Column  # its place among those requests; their roots come first in each
    above: _Column  # a root: itself
    start_ns: _Column
    end_ns: _Column
    done_ns: _Column  # when its request ended
    stage: _Column
    span_id: _Column


def after_answers(
    laid: _Laid,
    start_ns: _Column,
    end_ns: _Column,
    span_id: _Column,
    known: FactsOfBatch,
    resource: _Column,
    longest_ns: int,
) -> _Column | None:
    """Divide the time from the end of each request until the last of its spans has ended.

    Args:
        start_ns: Start of each span of the batch, by one clock.
        span_id: Number of each span, in the order of ids.
        resource: Row of each span in the table of resources.
        longest_ns: A span that ended so much later had a clock that was not set.

    Returns:
        The time of each stage (r, stages); None: no request went on.
    """
    first, ends_ns = laid.first[:-1], end_ns[laid.rows]
    if not len(first):
        return None
    late = np.maximum.reduceat(ends_ns, first) - ends_ns[first] >= LEAST_NS
    if not late.any():
        return None
    requests = np.flatnonzero(late)
    places = np.flatnonzero(np.repeat(late, np.diff(laid.first)))
    spans = _spans(laid, requests, places, (start_ns, end_ns, span_id))
    left = _timed(laid, places, spans, known, resource)
    left &= (spans.end_ns > spans.done_ns) & (spans.start_ns < spans.end_ns)
    left &= spans.end_ns - spans.done_ns <= longest_ns
    idle_ns = np.full(len(requests), np.iinfo(np.int64).min)
    np.maximum.at(idle_ns, spans.request[left], spans.end_ns[left])
    roots = np.flatnonzero(spans.above == np.arange(len(spans.above)))
    goes_on = idle_ns - spans.end_ns[roots] >= LEAST_NS
    left &= goes_on[spans.request]
    if not goes_on.any():
        return None
    after = np.zeros((len(first), len(STAGES)), np.int64)
    segments = _path(spans, np.flatnonzero(left), roots, idle_ns, goes_on)
    number, from_ns, to_ns, stage = segments[:, :4].T
    np.add.at(after, (requests[goes_on][number], stage), to_ns - from_ns)
    return after


def _spans(
    laid: _Laid, requests: _Column, places: _Column, of_spans: tuple[_Column, _Column, _Column]
) -> _Spans:
    rows = laid.rows[places]
    number = np.full(len(laid.rows), _NOWHERE)
    number[places] = np.arange(len(places))
    above = laid.above[places]
    start_ns, end_ns, span_id = (one[rows] for one in of_spans)
    lengths = np.diff(laid.first)[requests]
    first = number[laid.first[:-1][requests]]
    return _Spans(
        request=np.repeat(np.arange(len(requests)), lengths),
        above=np.where(above < 0, np.arange(len(places)), number[above]),
        start_ns=start_ns,
        end_ns=end_ns,
        done_ns=np.repeat(end_ns[first], lengths),
        stage=laid.stage[places],
        span_id=span_id,
    )


def _timed(
    laid: _Laid, places: _Column, spans: _Spans, known: FactsOfBatch, resource: _Column
) -> _Flags:
    """The spans below the roots of which it is known when they ran."""
    rows, above = laid.rows[places], spans.above
    clock = known.resources[resource[rows], CLOCK]
    timed: _Flags = clock == clock[above]
    timed |= (spans.start_ns >= spans.start_ns[above]) & (spans.end_ns <= spans.end_ns[above])
    is_leaf = laid.children[places, 0] == laid.children[places, 1]
    timed &= ~(is_leaf & (known.table[known.kind[rows], MESSAGE] == HANG_UP))
    is_root = above == np.arange(len(above))
    timed |= is_root
    while (above != above[above]).any():  # twice as far up each time
        timed &= timed[above]
        above = above[above]
    timed &= ~is_root
    return timed


def _path(
    spans: _Spans, left: _Column, roots: _Column, idle_ns: _Column, goes_on: _Flags
) -> _Column:
    """The critical paths of the stretches: number among those that go on, start, end, stage."""
    stretches = int(goes_on.sum())
    around = _around(spans, left)
    place = np.full(len(spans.above), _NOWHERE)
    place[left] = stretches + np.arange(len(left))  # a stretch is a span, too: these come first
    number = (np.cumsum(goes_on) - 1)[spans.request[left]]
    above = np.where(around == _NOWHERE, number, place[around])
    begin_ns = np.concatenate((spans.done_ns[roots[goes_on]], spans.start_ns[left]))
    finish_ns = np.concatenate((idle_ns[goes_on], spans.end_ns[left]))
    begin_ns = _within(begin_ns, finish_ns, np.concatenate((np.arange(stretches), above)))
    keys = spans.span_id[left], finish_ns[stretches:], begin_ns[stretches:], above
    by_parent = np.lexsort(keys)
    order = np.concatenate((np.arange(stretches), stretches + by_parent))
    begins, ends = (np.searchsorted(above[by_parent], order, side) for side in _SIDES)
    parts_and_tracks = critical_paths.descend(
        np.append(np.arange(stretches), len(order)),
        begin_ns[order],
        finish_ns[order],
        np.concatenate((np.full(stretches, _UNATTRIBUTED), spans.stage[left]))[order],
        stretches + np.column_stack((begins, ends)),
        np.zeros(len(order), np.bool_),
        np.zeros((0, 4), np.int64),
        np.zeros(len(order) + 1, np.int64),
    )
    return critical_paths.gather(*parts_and_tracks)


def _around(spans: _Spans, left: _Column) -> _Column:
    """Of each span that is left, the one that it lies below after its request's end."""
    around = np.full(len(left), _NOWHERE)
    is_left = np.zeros(len(spans.above), np.bool_)
    is_left[left] = True
    waiting, above = np.arange(len(left)), spans.above[left]
    for _ in range(MOST_ABOVE):
        found = is_left[above] & (spans.end_ns[above] >= spans.end_ns[left[waiting]])
        around[waiting[found]] = above[found]
        on = ~found & (above != spans.above[above])  # a root is its own
        waiting, above = waiting[on], spans.above[above[on]]
        if not len(waiting):
            break
    return around


def _within(begin_ns: _Column, finish_ns: _Column, up: _Column) -> _Column:
    """The starts of spans that begin no earlier than any of those above them."""
    while (up != up[up]).any():  # twice as far up each time
        begin_ns, up = np.maximum(begin_ns, begin_ns[up]), up[up]
    return np.minimum(np.maximum(begin_ns, begin_ns[up]), finish_ns)
