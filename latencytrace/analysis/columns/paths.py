"""Critical paths with what processes reported of their pauses: an array function, to be compiled.

What `analysis.gpu.engine_steps` and `analysis.ledger.runtime_gaps` do object by object; those
are the oracles.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.facts import IS_STEP, PROCESS
from latencytrace.model import Stage
from latencytrace.model.stage import STAGES

_Column = NDArray[np.int64]
_Flags = NDArray[np.bool_]

_RUNTIME = STAGES.index(Stage.RUNTIME)
_UNATTRIBUTED = STAGES.index(Stage.UNATTRIBUTED)
_STAGES = len(STAGES)

OWN_NAME: Final = -1  # a segment is named as its span
# The columns of segments
REQUEST, BEGIN, END, IN_STAGE, PLACE, TITLE = range(6)


def fill_pauses(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - columns, and loops without calls
    segments: _Column,
    tree_first: _Column,
    tree_rows: _Column,
    above: _Column,
    stages: _Column,
    start_ns: _Column,
    span_id: _Column,
    kind: _Column,
    facts: _Column,
    tells: _Flags,
    gaps: _Column,
    gap: _Column,
    collection: int,
) -> tuple[_Column, _Column, _Column]:
    """Fill what is unattributed with the gaps of the process, and add the stages up.

    Args:
        segments: From `analysis.ledger.kernels`: request, start, end, stage, place in the trees.
        tree_first: Where each request's tree begins.
        tree_rows: Of each place in a tree the span.
        above: Its parent's place.
        stages: Its stage.
        start_ns: By span, as sent.
        span_id: As signed numbers of the same order.
        kind: Of each span its row of the facts.
        facts: See `analysis.columns.facts`.
        tells: The spans that tell gaps.
        gaps: Where those of each begin (n + 1,).
        gap: Start and end, from the span's start, and title of each; none overlap.
        collection: The title of a collection of garbage.

    Returns:
        Segments (s, 6), see above, from the start of their request; where those of each request
        begin; the time of each stage (r, stages).
    """
    requests = len(tree_first) - 1
    most = 3 * len(segments) + 1
    for at in range(len(tree_rows)):
        if tells[tree_rows[at]]:
            most += 2 * (gaps[tree_rows[at] + 1] - gaps[tree_rows[at]])
    found = np.empty((most, 6), np.int64)
    begins = np.zeros(requests + 1, np.int64)
    ledger = np.zeros((requests, _STAGES), np.int64)
    pausing = np.empty(len(tree_rows), np.int64)
    whole = np.empty(len(tree_rows), np.int64)  # of steps the place that they are charged to
    made = following = 0
    for request in range(requests):
        base, beyond = tree_first[request], tree_first[request + 1]
        origin_ns = start_ns[tree_rows[base]]
        reported = 0
        for at in range(base, beyond):
            whole[at] = at
            up = above[at]
            if up >= 0 and facts[kind[tree_rows[at]], IS_STEP] and stages[at] == stages[up]:
                whole[at] = whole[up]
            if tells[tree_rows[at]]:
                pausing[reported] = tree_rows[at]
                reported += 1
        while following < len(segments) and segments[following, 0] == request:
            from_ns = segments[following, 1] - origin_ns
            to_ns = segments[following, 2] - origin_ns
            stage, place = segments[following, 3], segments[following, 4]
            if stage == stages[place]:
                place = whole[place]
            following += 1
            while following < len(segments) and segments[following, 0] == request:
                next_place = segments[following, 4]
                if segments[following, 3] == stages[next_place]:
                    next_place = whole[next_place]
                if next_place != place or segments[following, 3] != stage:
                    break
                to_ns = segments[following, 2] - origin_ns
                following += 1
            title = OWN_NAME
            if stage == _RUNTIME and stages[place] != _RUNTIME:
                title = collection
            elif stage == _UNATTRIBUTED and reported:
                # The outermost span of this process that tells.
                process = facts[kind[tree_rows[place]], PROCESS]
                first = -1
                for one in range(reported):
                    row = pausing[one]
                    if facts[kind[row], PROCESS] == process and (
                        first < 0
                        or start_ns[row] < start_ns[first]
                        or (start_ns[row] == start_ns[first] and span_id[row] > span_id[first])
                    ):
                        first = row
                if first >= 0:
                    shift_ns = start_ns[first] - origin_ns
                    for one in range(gaps[first], gaps[first + 1]):
                        since_ns = max(gap[one, 0] + shift_ns, from_ns)
                        until_ns = min(gap[one, 1] + shift_ns, to_ns)
                        if since_ns >= until_ns:
                            continue
                        if from_ns < since_ns:
                            found[made] = (request, from_ns, since_ns, stage, place, OWN_NAME)
                            made += 1
                        ledger[request, stage] += since_ns - from_ns
                        found[made] = (request, since_ns, until_ns, _RUNTIME, place, gap[one, 2])
                        made += 1
                        ledger[request, _RUNTIME] += until_ns - since_ns
                        from_ns = until_ns
            if from_ns < to_ns:
                found[made] = (request, from_ns, to_ns, stage, place, title)
                made += 1
                ledger[request, stage] += to_ns - from_ns
        begins[request + 1] = made
    return found[:made], begins, ledger
