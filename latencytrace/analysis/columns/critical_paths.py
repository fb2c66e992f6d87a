"""The critical path over columns: array functions (`compiled/critical_paths.c`).

What `analysis.ledger.critical_path` does span by span, for many traces at once: 10 000 spans
take it under 10 ms on one core (`tests/benchmarks/bench_critical_path.py`). That module is the
oracle: it says why each step is taken, and both give equal segments.
"""

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.compiled.core import bind, needed

_Column = NDArray[np.int64]

# Of a part that is another span's, in the place of its stage. Its row is the span's, or, once
# this has a track, that.
bind({"DIVIDE": -1, "LOOK_UP": -2})


def win(
    intervals: _Column,
    interval_start_ns: _Column,
    interval_end_ns: _Column,
    interval_stage: _Column,
) -> tuple[_Column, _Column]:
    """Return what each of the intervals packed on a span gets.

    Args:
        intervals: Where those of each span begin (n + 1,).
        interval_start_ns: Their starts (m,), those of a span in order.

    Returns:
        Winners (at most 2 m, 4): span, start, end, stage, in order of span and time; where each
        span's begin (n + 1,).
    """
    winners = np.empty((2 * len(interval_start_ns), 4), np.int64)
    won = np.empty(len(intervals), np.int64)
    made = needed().win(
        intervals, interval_start_ns, interval_end_ns, interval_stage, winners, won
    )
    return winners[:made], won


def descend(  # noqa: PLR0913 - columns
    first: _Column,
    start_ns: _Column,
    end_ns: _Column,
    stage: _Column,
    children: _Column,
    outlives: NDArray[np.bool_],
    winners: _Column,
    won: _Column,
) -> tuple[_Column, _Column]:
    """Walk each span on a path once, however many parts of its time count.

    A span of which parts lie apart has a track of its own: its parts from the first that
    counts to the last. Every trace has one, its root's; those of its other spans follow.

    Args:
        first: Where each trace begins (t + 1,), with its root.
        start_ns: Start of each span (n,); each span lies within its parent.
        end_ns: End of each span (n,).
        stage: Stage of each span (n,).
        children: Begin and end of each span's children (n, 2), in order of start.
        outlives: Whether each span went on after its parent (n,).
        winners: Result of `win`.
        won: Result of `win`.

    Returns:
        Parts (p, 4): span or track, start, end, stage, those of a track side by side in order of
        time; tracks (k, 3): the trace, where its parts begin and end.
    """
    spans = len(start_ns)
    most = 4 * spans + 2 * len(winners) + 1  # a part begins where a child or winner does or ends
    parts = np.empty((most, 4), np.int64)
    tracks = np.empty((spans + len(first), 3), np.int64)
    part_count, track_count = needed().descend(
        first, start_ns, end_ns, stage, children, outlives, winners, won, parts, tracks
    )
    return parts[:part_count], tracks[:track_count]


def gather(parts: _Column, tracks: _Column) -> _Column:
    """Put together what counts of each track; neighbours of one span and stage are joined.

    Args:
        parts: Result of `descend`.
        tracks: Result of `descend`.

    Returns:
        Segments (at most 2 p, 5): trace, start, end, stage, span; in order of trace and time.
    """
    segments = np.empty((2 * len(parts), 5), np.int64)
    made = needed().gather(parts, tracks, segments)
    return segments[:made]
