"""Critical paths in which the own time of a span was a wait for the next attempt of a call.

`analysis.calls.waits` is the oracle. Few requests have such a wait, and only these are walked.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from latencytrace.model import Stage
from latencytrace.model.stage import STAGES

_Column = NDArray[np.int64]
_RETRY = STAGES.index(Stage.RETRY)


class _Laid(Protocol):
    """Columns of `requests.Trees`, by place."""

    @property
    def rows(self) -> _Column: ...
    @property
    def above(self) -> _Column: ...
    @property
    def end_ns(self) -> _Column: ...
    @property
    def stage(self) -> _Column: ...
    @property
    def awaited(self) -> _Column: ...


class _Wait(NamedTuple):
    start_ns: int
    end_ns: int
    span_id: int
    place: int  # of the failed attempt


_Row = list[int]  # of segments: request, start, end, stage, place


def with_waits(segments: _Column, laid: _Laid, span_id: _Column) -> _Column:
    """Charge waits for the next attempt of a call to the attempt that failed, as `retry`.

    Args:
        segments: Request, start, end, stage and place in the trees (s, 5), in order.
        laid: The trees.
        span_id: Of each span a number in the order of its id.

    Returns:
        The same with more segments, in order.
    """
    waits = _waits(laid, span_id)
    if not waits:
        return segments
    waiting = np.isin(segments[:, 4], list(waits))
    has_wait = np.isin(segments[:, 0], segments[waiting, 0])
    walked = np.array(_walked(segments[has_wait].tolist(), laid, waits), np.int64).reshape(-1, 5)
    found = np.concatenate([segments[~has_wait], walked])
    return np.ascontiguousarray(found[np.lexsort((found[:, 1], found[:, 0]))])


def _waits(laid: _Laid, span_id: _Column) -> Mapping[int, list[_Wait]]:
    """Return the waits of each place, the earliest last; none overlap."""
    waits: dict[int, list[_Wait]] = defaultdict(list)
    for place in np.flatnonzero(laid.awaited >= 0).tolist():
        ids = int(span_id[laid.rows[place]])
        wait = _Wait(int(laid.end_ns[place]), int(laid.awaited[place]), ids, place)
        waits[int(laid.above[place])].append(wait)
    return {place: _apart(of_place) for place, of_place in waits.items()}


def _apart(waits: list[_Wait]) -> list[_Wait]:
    apart: list[_Wait] = []
    before_ns = 0
    for wait in sorted(waits):
        since_ns = max(wait.start_ns, before_ns)
        if since_ns < wait.end_ns:
            apart.append(wait._replace(start_ns=since_ns))
            before_ns = wait.end_ns
    return apart[::-1]


def _walked(segments: list[_Row], laid: _Laid, waits: Mapping[int, list[_Wait]]) -> list[_Row]:
    walked: list[_Row] = []
    for row in segments:
        own = row[3] == laid.stage[row[4]]
        for part in _parts(row, waits.get(row[4], []) if own else []):
            last = walked[-1] if walked else None
            if last is not None and (last[0], *last[3:]) == (part[0], *part[3:]):
                last[2] = part[2]
            else:
                walked.append(part)
    return walked


def _parts(row: _Row, waits: list[_Wait]) -> list[_Row]:
    """Split a span's own time; waits that are over are taken out."""
    request, at_ns, end_ns, stage, place = row
    parts: list[_Row] = []
    while waits and waits[-1].start_ns < end_ns:
        wait = waits[-1]
        since_ns, until_ns = max(wait.start_ns, at_ns), min(wait.end_ns, end_ns)
        if since_ns < until_ns:
            if at_ns < since_ns:
                parts.append([request, at_ns, since_ns, stage, place])
            parts.append([request, since_ns, until_ns, _RETRY, wait.place])
            at_ns = until_ns
        if wait.end_ns > end_ns:
            break
        waits.pop()
    if at_ns < end_ns:
        parts.append([request, at_ns, end_ns, stage, place])
    return parts
