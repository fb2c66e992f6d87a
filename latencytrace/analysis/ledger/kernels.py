"""The critical path over columns: plain array functions, which the service compiles.

What `analysis.ledger.critical_path` does span by span, for many traces at once: 10 000 spans
take it under 10 ms on one core once compiled (`tests/benchmarks/bench_critical_path.py`).
That module is the oracle: it says why each step is taken, and both give equal segments.

Each of `PLAIN` reads and writes arrays only and calls none of the others, so that a
compiler can take them one by one.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_Column = NDArray[np.int64]
Kernel = Callable[..., Any]


class Kernels(NamedTuple):
    """The three steps, plain or compiled."""

    win: Kernel
    descend: Kernel
    gather: Kernel


# Columns of intervals and what they win, of parts and segments. A part's stage is below 0 where
# it is another span's: then its row is the span's, or, once this has one, its track.
_ROW, _FROM, _TO, _STAGE = range(4)
_DIVIDE, _LOOK_UP = -1, -2
_FEW = 32  # children, up to which sorting by insertion is fastest


def win(
    intervals: _Column,
    interval_start_ns: _Column,
    interval_end_ns: _Column,
    interval_stage: _Column,
) -> tuple[_Column, _Column]:
    """Return what each of the intervals packed on a span gets.

    Returns:
        Winners (at most 2 m, 4), in order of span and time; where each span's begin (n + 1,).
    """
    winners = np.empty((2 * len(interval_start_ns), 4), np.int64)
    won = np.empty(len(intervals), np.int64)
    made = 0
    for row in range(len(intervals) - 1):
        won[row] = made
        following, last = intervals[row], intervals[row + 1]
        while following < last:
            at_ns = interval_start_ns[following]
            running = [(-interval_end_ns[following], -at_ns, interval_stage[following], following)]
            following += 1
            while running:
                while following < last and interval_start_ns[following] <= at_ns:
                    rank = (
                        -interval_end_ns[following], -interval_start_ns[following],
                        interval_stage[following], following,
                    )  # fmt: skip
                    heappush(running, rank)
                    following += 1
                until_ns = -running[0][0]
                if until_ns <= at_ns:
                    heappop(running)
                    continue
                if following < last:
                    until_ns = min(until_ns, interval_start_ns[following])
                winners[made, _ROW] = row
                winners[made, _FROM] = at_ns
                winners[made, _TO] = until_ns
                winners[made, _STAGE] = running[0][2]
                made += 1
                at_ns = until_ns
    won[-1] = made
    return winners[:made], won


def descend(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - columns, and one loop without calls
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

    Returns:
        Parts (p, 4), those of a track side by side in order of time; tracks (k, 3): the trace,
        where its parts begin and end.
    """
    spans = len(start_ns)
    most = 4 * spans + 2 * len(winners) + 1  # a part begins where a child or winner does or ends
    parts = np.empty((most, 4), np.int64)
    tracks = np.empty((spans + len(first), 3), np.int64)
    wanted = np.empty((spans + len(first), 3), np.int64)  # of a track: span, start, end
    track_of = np.empty(spans, np.int64)
    times = np.zeros(spans, np.int64)  # how many parts of its parent a span gets
    pending = np.empty((most, 4), np.int64)  # to be walked yet, the earliest on top
    walked = np.empty((most, 3), np.int64)  # a span's parts, the last first: child, start, end
    by_end = np.empty(spans, np.int64)
    beside = np.empty(spans, np.int64)  # children that end later than all before them
    after = np.empty(spans, np.int64)  # and those that outlive their parent
    part = made = done = 0
    for tree in range(len(first) - 1):
        root = first[tree]
        wanted[made] = (root, start_ns[root], end_ns[root])
        made += 1
        while done < made:
            tracks[done, 0] = tree
            tracks[done, 1] = part
            pending[0, 0] = wanted[done, 0]
            pending[0, 1] = wanted[done, 1]
            pending[0, 2] = wanted[done, 2]
            pending[0, 3] = _DIVIDE
            done += 1
            waiting = 1
            while waiting:
                waiting -= 1
                row, low_ns, high_ns, kind = pending[waiting]
                if kind != _DIVIDE:
                    parts[part, 0] = row
                    parts[part, 1] = low_ns
                    parts[part, 2] = high_ns
                    parts[part, 3] = kind
                    part += 1
                    continue
                below, last = children[row]
                winner = won[row + 1] - 1
                if below == last and winner < won[row]:
                    parts[part, 0] = row
                    parts[part, 1] = low_ns
                    parts[part, 2] = high_ns
                    parts[part, 3] = stage[row]
                    part += 1
                    continue

                # Sort: by end, of those that end together the later start and then the
                # earlier row last; and those that can fill gaps, in order of start.
                ended = besides = afters = 0
                for child in range(below, last):
                    if start_ns[child] == end_ns[child]:
                        continue  # what took no time holds nothing up
                    if outlives[child]:
                        if not afters or start_ns[child] > start_ns[after[afters - 1]]:
                            after[afters] = child
                            afters += 1
                        continue
                    by_end[ended] = child
                    ended += 1
                    if (
                        not besides
                        or end_ns[child] > end_ns[beside[besides - 1]]
                        or (
                            end_ns[child] == end_ns[beside[besides - 1]]
                            and start_ns[child] > start_ns[beside[besides - 1]]
                        )
                    ):
                        beside[besides] = child
                        besides += 1
                if ended > _FEW:
                    keys = end_ns[by_end[:ended]]
                    by_end[:ended] = by_end[:ended][np.argsort(keys, kind="mergesort")]
                else:
                    for one in range(1, ended):
                        place, child = one, by_end[one]
                        while place and end_ns[by_end[place - 1]] > end_ns[child]:
                            by_end[place] = by_end[place - 1]
                            place -= 1
                        by_end[place] = child

                # Walk back from the end, as far as is wanted.
                steps = 0
                at_ns = end_ns[row]
                while at_ns > low_ns:
                    while ended and end_ns[by_end[ended - 1]] > at_ns:
                        ended -= 1
                    taken = -1
                    gap_ns = start_ns[row]
                    if ended:
                        ended -= 1
                        taken = by_end[ended]
                        gap_ns = end_ns[taken]
                        while (
                            ended
                            and end_ns[by_end[ended - 1]] == gap_ns
                            and start_ns[by_end[ended - 1]] == start_ns[taken]
                        ):
                            ended -= 1
                            taken = by_end[ended]
                    while besides and gap_ns < at_ns and gap_ns < end_ns[beside[besides - 1]]:
                        child = beside[besides - 1]
                        begin_ns = max(start_ns[child], gap_ns)
                        if begin_ns < at_ns:
                            walked[steps, 0] = child
                            walked[steps, 1] = begin_ns
                            walked[steps, 2] = at_ns
                            steps += 1
                            at_ns = begin_ns
                        if begin_ns > gap_ns:
                            besides -= 1
                    while afters and gap_ns < at_ns:
                        child = after[afters - 1]
                        begin_ns = max(start_ns[child], gap_ns)
                        if begin_ns < at_ns:
                            walked[steps, 0] = child
                            walked[steps, 1] = begin_ns
                            walked[steps, 2] = at_ns
                            steps += 1
                            at_ns = begin_ns
                        if begin_ns > gap_ns:
                            afters -= 1
                    if gap_ns < at_ns:
                        walked[steps, 0] = -1
                        walked[steps, 1] = gap_ns
                        walked[steps, 2] = at_ns
                        steps += 1
                        at_ns = gap_ns
                    if taken >= 0:
                        walked[steps, 0] = taken
                        walked[steps, 1] = start_ns[taken]
                        walked[steps, 2] = at_ns
                        steps += 1
                        at_ns = start_ns[taken]

                # What is wanted of it, less what the intervals win, from the last part to the
                # first, so that the first lies on top.
                bottom = waiting
                for step in range(steps):
                    child, from_ns, to_ns = walked[step]
                    from_ns = max(from_ns, low_ns)
                    to_ns = min(to_ns, high_ns)
                    while from_ns < to_ns:
                        while winner >= won[row] and winners[winner, _FROM] >= to_ns:
                            winner -= 1
                        until_ns = from_ns
                        if winner >= won[row] and winners[winner, _TO] > from_ns:
                            until_ns = winners[winner, _TO]
                            if until_ns >= to_ns:
                                until_ns = max(winners[winner, _FROM], from_ns)
                                pending[waiting, 0] = row
                                pending[waiting, 1] = until_ns
                                pending[waiting, 2] = to_ns
                                pending[waiting, 3] = winners[winner, _STAGE]
                                waiting += 1
                                to_ns = until_ns
                                continue
                        if child < 0:
                            pending[waiting, 0] = row
                            pending[waiting, 1] = until_ns
                            pending[waiting, 2] = to_ns
                            pending[waiting, 3] = stage[row]
                        else:
                            pending[waiting, 0] = child
                            pending[waiting, 1] = until_ns
                            pending[waiting, 2] = to_ns
                            pending[waiting, 3] = _DIVIDE
                            times[child] += 1
                        waiting += 1
                        to_ns = until_ns

                # Spans of which parts lie apart are walked later, all that is wanted at once.
                for place in range(bottom, waiting):
                    child = pending[place, _ROW]
                    if pending[place, _STAGE] != _DIVIDE or times[child] == 1:
                        continue
                    if times[child] > 1:
                        track_of[child] = made
                        wanted[made, 0] = child
                        wanted[made, 2] = pending[place, _TO]
                        times[child] = 0
                        made += 1
                    wanted[track_of[child], 1] = pending[place, _FROM]
                    pending[place, _ROW] = track_of[child]
                    pending[place, _STAGE] = _LOOK_UP
            tracks[done - 1, 2] = part
    return parts[:part], tracks[:done]


def gather(parts: _Column, tracks: _Column) -> _Column:  # noqa: C901 - a loop without calls
    """Put together what counts of each track; neighbours of one span and stage are joined.

    Returns:
        Segments (at most 2 p, 5): trace, start, end, stage, span; in order of trace and time.
    """
    segments = np.empty((2 * len(parts), 5), np.int64)
    made = 0
    stack = np.empty((len(tracks) + 1, 3), np.int64)  # the part that is next; start, end
    inside = np.empty(len(tracks) + 1, np.int64)  # the track
    for track in range(len(tracks)):
        tree, one, beyond = tracks[track]
        if (track and tracks[track - 1, 0] == tree) or one == beyond:
            continue  # not the root's; or a request that took no time
        inside[0] = track
        stack[0] = (one, parts[one, _FROM], parts[beyond - 1, _TO])
        depth = 1
        while depth:
            following, low_ns, high_ns = stack[depth - 1]
            if following == tracks[inside[depth - 1], 2] or parts[following, _FROM] >= high_ns:
                depth -= 1
                continue
            stack[depth - 1, 0] += 1
            from_ns = max(parts[following, _FROM], low_ns)
            to_ns = min(parts[following, _TO], high_ns)
            row, stage = parts[following, _ROW], parts[following, _STAGE]
            if stage == _LOOK_UP:
                one, beyond = tracks[row, 1], tracks[row, 2]
                while beyond - one > 1:
                    middle = (one + beyond) // 2
                    if parts[middle, _FROM] <= from_ns:
                        one = middle
                    else:
                        beyond = middle
                inside[depth] = row
                stack[depth] = (one, from_ns, to_ns)
                depth += 1
            elif (
                made
                and segments[made - 1, 0] == tree
                and segments[made - 1, 3] == stage
                and segments[made - 1, 4] == row
            ):
                segments[made - 1, 2] = to_ns
            else:
                segments[made, 0] = tree
                segments[made, 1] = from_ns
                segments[made, 2] = to_ns
                segments[made, 3] = stage
                segments[made, 4] = row
                made += 1
    return segments[:made]


PLAIN = Kernels(win=win, descend=descend, gather=gather)
