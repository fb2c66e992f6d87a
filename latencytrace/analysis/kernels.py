"""The critical path over columns: plain array functions, which the service compiles.

What `analysis.critical_path` does span by span, for many traces at once: 10 000 spans
take it under 10 ms on one core once compiled (`tests/benchmarks/bench_critical_path.py`).
That module is the oracle: it says why each step is taken, and both give equal segments.

Each of `COMPILED` reads and writes arrays only and calls none of the others, so that a
compiler can take them one by one.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latencytrace.model import Segment
from latencytrace.model.span_columns import STAGES, SpanColumns

_Column = NDArray[np.int64]
Kernel = Callable[..., Any]


class Kernels(NamedTuple):
    """The three steps, plain or compiled."""

    descend: Kernel
    win: Kernel
    overlay: Kernel


def critical_paths(columns: SpanColumns, kernels: Kernels) -> list[tuple[Segment, ...]]:
    """Charge each nanosecond of many requests to the span that held it up.

    Args:
        columns: The requests' traces.
        kernels: `PLAIN`, or these compiled.

    Returns:
        For each trace what `analysis.critical_path.critical_path` gives.
    """
    stretches, claims = kernels.descend(
        columns.first, columns.start_ns, columns.end_ns, columns.stage, columns.children,
        columns.intervals, columns.interval_start_ns, columns.interval_end_ns,
        columns.interval_stage,
    )  # fmt: skip
    # By trace, then by start; the others break no tie that matters.
    order = np.lexsort((claims[:, _FROM], claims[:, _TREE]))
    winners = kernels.win(claims[order])
    segments = kernels.overlay(stretches, winners)
    return _segments(columns, segments)


def _segments(columns: SpanColumns, segments: _Column) -> list[tuple[Segment, ...]]:
    trees, starts_ns, ends_ns, stages, rows = segments.T.tolist()
    found: list[list[Segment]] = [[] for _ in columns.first[:-1]]
    roots = columns.first.tolist()
    spans = columns.spans
    for tree, start_ns, end_ns, stage, row in zip(
        trees, starts_ns, ends_ns, stages, rows, strict=True
    ):
        origin_ns = spans[roots[tree]].start_ns
        found[tree].append(
            Segment(
                start_ns=start_ns - origin_ns,
                end_ns=end_ns - origin_ns,
                stage=STAGES[stage],
                span_id=spans[row].span_id,
                name=spans[row].name,
            )
        )
    return [tuple(path) for path in found]


# Columns of stretches and segments: trace, start, end, stage, span.
# Those of claims: trace, start, end, stage, span; depth of the span, and the interval's own end
# and start, which decide between claims that run together.
_TREE, _FROM, _TO, _STAGE, _ROW, _DEPTH, _ENDS, _STARTS = range(8)


def descend(  # noqa: C901, PLR0912, PLR0913, PLR0917 - columns, and one loop without calls
    first: _Column,
    start_ns: _Column,
    end_ns: _Column,
    stage: _Column,
    children: _Column,
    intervals: _Column,
    interval_start_ns: _Column,
    interval_end_ns: _Column,
    interval_stage: _Column,
) -> tuple[_Column, _Column]:
    """The paths as if there were no intervals, and what the intervals on them claim.

    Returns:
        Stretches (at most 2 n, 5), in order of trace and time; claims (at most m, 8).
    """
    spans = len(start_ns)
    stretches = np.empty((2 * spans, 5), np.int64)
    claims = np.empty((len(interval_start_ns), 8), np.int64)
    stretch = claim = 0
    # What is still to be divided, the earliest on top: span, start, end, depth; -1: its own.
    pending = np.empty((2 * spans + 1, 4), np.int64)
    holders = np.empty(spans + 1, np.int64)
    for tree in range(len(first) - 1):
        root = first[tree]
        pending[0] = (root, start_ns[root], end_ns[root], 0)
        waiting = 1
        while waiting:
            waiting -= 1
            row, from_ns, to_ns, depth = pending[waiting]
            below, last = children[row]
            if depth >= 0:
                for one in range(intervals[row], intervals[row + 1]):
                    until_ns = min(interval_end_ns[one], to_ns)
                    if interval_start_ns[one] < until_ns:
                        claims[claim] = (
                            tree, interval_start_ns[one], until_ns, interval_stage[one], row,
                            depth, -interval_end_ns[one], -interval_start_ns[one],
                        )  # fmt: skip
                        claim += 1
            if depth < 0 or below == last:
                if to_ns > from_ns:
                    stretches[stretch] = (tree, from_ns, to_ns, stage[row], row)
                    stretch += 1
                continue
            held = 0
            for child in range(below, last):
                if start_ns[child] >= min(end_ns[child], to_ns):
                    continue
                holder = holders[held - 1]
                if (
                    held == 0
                    or end_ns[child] > end_ns[holder]
                    or (end_ns[child] == end_ns[holder] and start_ns[child] > start_ns[holder])
                ):
                    holders[held] = child
                    held += 1
            # From the last to the first, so that the first lies on top.
            takeover_ns = to_ns
            for place in range(held - 1, -1, -1):
                child = holders[place]
                left_ns = min(end_ns[child], takeover_ns)
                if takeover_ns > left_ns:
                    pending[waiting] = (row, left_ns, takeover_ns, -1)
                    waiting += 1
                if left_ns > start_ns[child]:
                    pending[waiting] = (child, start_ns[child], left_ns, depth + 1)
                    waiting += 1
                takeover_ns = start_ns[child]
            if takeover_ns > from_ns:
                pending[waiting] = (row, from_ns, takeover_ns, -1)
                waiting += 1
    return stretches[:stretch], claims[:claim]


def win(claims: _Column) -> _Column:
    """What the intervals get: those of the span nearest the root win.

    Args:
        claims: (m, 8), in order of trace and start.

    Returns:
        Stretches (at most 2 m, 5), in order of trace and time.
    """
    winners = np.empty((2 * len(claims), 5), np.int64)
    won = following = 0
    while following < len(claims):
        tree = claims[following, _TREE]
        at_ns = claims[following, _FROM]
        first = following
        rank = (
            claims[first, _DEPTH], claims[first, _ENDS], claims[first, _STARTS],
            claims[first, _STAGE], first,
        )  # fmt: skip
        running = [rank]
        following += 1
        while running:
            while (
                following < len(claims)
                and claims[following, _TREE] == tree
                and claims[following, _FROM] <= at_ns
            ):
                rank = (
                    claims[following, _DEPTH], claims[following, _ENDS],
                    claims[following, _STARTS], claims[following, _STAGE], following,
                )  # fmt: skip
                heappush(running, rank)
                following += 1
            one = running[0][4]
            if claims[one, _TO] <= at_ns:
                heappop(running)
                continue
            until_ns = claims[one, _TO]
            if following < len(claims) and claims[following, _TREE] == tree:
                until_ns = min(until_ns, claims[following, _FROM])
            winners[won] = (tree, at_ns, until_ns, claims[one, _STAGE], claims[one, _ROW])
            won += 1
            at_ns = until_ns
    return winners[:won]


def overlay(below: _Column, above: _Column) -> _Column:
    """The stretches below, but for the time that those above cover; neighbours are joined.

    Args:
        below: Stretches (s, 5) that partition each trace, in order of trace and time.
        above: Stretches (w, 5) within them, likewise.

    Returns:
        Segments (at most 2 s + 2 w, 5), in order of trace and time.
    """
    segments = np.empty((2 * (len(below) + len(above)), 5), np.int64)
    made = following = 0
    for one in range(len(below)):
        tree, at_ns, end_ns, stage, row = below[one]
        while at_ns < end_ns:
            covered = (
                following < len(above)
                and above[following, _TREE] == tree
                and above[following, _FROM] <= at_ns
            )
            if covered:
                until_ns = min(above[following, _TO], end_ns)
                piece = (tree, at_ns, until_ns, above[following, _STAGE], above[following, _ROW])
                if above[following, _TO] <= end_ns:
                    following += 1
            else:
                until_ns = end_ns
                if following < len(above) and above[following, _TREE] == tree:
                    until_ns = min(until_ns, above[following, _FROM])
                piece = (tree, at_ns, until_ns, stage, row)
            joins = (
                made > 0
                and segments[made - 1, _TREE] == tree
                and segments[made - 1, _STAGE] == piece[3]
                and segments[made - 1, _ROW] == piece[4]
            )
            if joins:
                segments[made - 1, _TO] = until_ns
            else:
                segments[made] = piece
                made += 1
            at_ns = until_ns
    return segments[:made]


PLAIN = Kernels(descend=descend, win=win, overlay=overlay)
