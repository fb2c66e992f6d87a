"""The critical path over columns: array functions (`compiled/critical_paths.c`).

What `analysis.ledger.critical_path` does span by span, for many traces at once: 10 000 spans
take it under 10 ms on one core (`tests/benchmarks/bench_critical_path.py`). That module is the
oracle: it says why each step is taken, and both give equal segments.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.compiled.core import bind, needed
from latencytrace.analysis.columns.facts import FACTS, IS_STEP, OF_RESOURCES, PROCESS
from latencytrace.model import Stage
from latencytrace.model.packed import RuntimeGap
from latencytrace.model.stage import STAGES

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
        interval_start_ns: Starts of intervals (m,), those of a span in order.

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


def descend(
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


# Critical paths with waits for the next attempt of a call, and pauses of processes.
#
# What `analysis.gpu.shared_steps`, `analysis.calls.waits` and `analysis.ledger.runtime_gaps` do
# object by object; those are the oracles. The functions are in `compiled/paths.c`.

_Flags = NDArray[np.bool_]

OWN_NAME: Final = -1  # a segment is named as its span
# The columns of segments
REQUEST, BEGIN, END, IN_STAGE, PLACE, TITLE = range(6)

bind(
    {
        "FACTS": FACTS, "OF_RESOURCES": OF_RESOURCES, "IS_STEP": IS_STEP, "PROCESS": PROCESS,
        "STAGES": len(STAGES),
        "RUNTIME": STAGES.index(Stage.RUNTIME), "UNATTRIBUTED": STAGES.index(Stage.UNATTRIBUTED),
        "OWN_NAME": OWN_NAME,
        "RETRY": STAGES.index(Stage.RETRY), "QUEUE": STAGES.index(Stage.QUEUE),
        "WAIT": sorted(RuntimeGap).index(RuntimeGap.RESULT_WAIT),
        "TURN": sorted(RuntimeGap).index(RuntimeGap.TURN_WAIT),
        "DATABASE": STAGES.index(Stage.DATABASE),
        "LIBRARY": sorted(RuntimeGap).index(RuntimeGap.DATABASE_LIBRARY),
    }
)  # fmt: skip


def fill_pauses(
    segments: _Column,
    tree_first: _Column,
    tree_rows: _Column,
    above: _Column,
    held_ns: _Column,
    stages: _Column,
    attempt: _Column,
    awaited: _Column,
    start_ns: _Column,
    span_id: _Column,
    kind: _Column,
    facts: _Column,
    resource: _Column,
    resources: _Column,
    tells: _Flags,
    gaps: _Column,
    gap: _Column,
    collection: int,
) -> tuple[_Column, _Column, _Column]:
    """Charge waits and what is below failed attempts to these, fill what is unattributed, add up.

    What is unattributed is filled with the gaps of its process.

    Args:
        segments: From `critical_paths`: request, start, end, stage, place in the trees.
        tree_first: Where each request's tree begins, as the next six from `lay_out_trees`.
        tree_rows: Span of each place in a tree.
        above: Place of the parent of each place.
        held_ns: Until when each place holds up its parent.
        stages: Stage of each place.
        attempt: The failed attempt of each place.
        awaited: Until when the parent of each place waits for the next attempt.
        start_ns: Start of each span, as sent.
        span_id: As signed numbers of the same order.
        kind: Row of each span in the facts.
        resource: Row of `resources` of each span.
        tells: The spans that tell gaps.
        gaps: Where those of each begin (n + 1,).
        gap: Start and end, from the span's start, and title of each; none overlap.
        collection: The title of a collection of garbage.

    Returns:
        Segments (s, 6), from the start of their request; where those of each request
        begin; the time of each stage (r, stages).
    """
    requests = len(tree_first) - 1
    telling = tree_rows[tells[tree_rows]]  # each gap, and each wait, may cut a segment in three
    waits = np.count_nonzero(awaited >= 0)
    most = 3 * (len(segments) + 2 * waits) + 2 * int((gaps[telling + 1] - gaps[telling]).sum())
    found = np.empty((most, 6), np.int64)
    begins = np.empty(requests + 1, np.int64)
    ledger = np.empty((requests, len(STAGES)), np.int64)
    made = needed().fill_pauses(
        segments, tree_first, tree_rows, above, held_ns, stages, attempt, awaited, start_ns,
        span_id, kind, facts, resource, resources, tells, gaps, gap, collection, found, begins,
        ledger,
    )  # fmt: skip
    return found[:made], begins, ledger


# Waits for a processor fill what is unattributed: `analysis.ledger.runtime_gaps` is the oracle.
# Only requests whose thread waited a millisecond or more are walked, one by one.
