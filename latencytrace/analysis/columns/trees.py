"""From columns of spans to one well-formed tree a request: array functions, to be compiled.

What `analysis.build_trace` does span by span, where nothing is to be mended but that spans stick
out of their parents. That module is the oracle: it says why each step is taken.

Each function reads and writes arrays only and calls none of the others, so that a compiler can
take them one by one (see `analysis.ledger.kernels`).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.build_trace import MAX_NESTED_REQUESTS, MAX_NESTED_SPANS
from latencytrace.analysis.columns.facts import (
    CLIENT,
    CLOCK,
    HANG_UP,
    IS_STEP,
    KNOWN_PROCESS,
    LEAF_ONLY,
    MESSAGE,
    ODD,
    SENT,
    SERVER,
    SERVICE,
    STAGE,
)
from latencytrace.model import Stage
from latencytrace.model.stage import STAGES

_Column = NDArray[np.int64]
_Flags = NDArray[np.bool_]

NO_PARENT: Final = -(1 << 63)  # an id of 0, made signed
_FEW = 32  # up to which sorting by insertion is fastest
_MOST_REQUESTS = 256  # of one trace; of more, objects take care
_NETWORK = STAGES.index(Stage.NETWORK)
_OTHER = STAGES.index(Stage.OTHER)
_RESPOND = STAGES.index(Stage.RESPOND)
_UNATTRIBUTED = STAGES.index(Stage.UNATTRIBUTED)


def link_spans(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - columns, and loops without calls
    first: _Column,
    span_id: _Column,
    parent_id: _Column,
    sent_ns: _Column,
    start_ns: _Column,
    end_ns: _Column,
    kind: _Column,
    facts: _Column,
    explains: _Flags,
    odd_row: _Flags,
    aligned: _Flags,
) -> tuple[_Flags, _Flags, _Column, _Column, _Column, _Column, _Column]:
    """Find each span's parent, the requests, and the traces that objects must take.

    Args:
        first: Where each trace begins.
        span_id: As signed numbers of the same order.
        parent_id: Likewise; `NO_PARENT`: none.
        sent_ns: The starts of the spans as sent.
        start_ns: Their starts, from when a proxy took those that it held back.
        end_ns: Their ends.
        kind: Of each span its row of the facts.
        facts: See `analysis.columns.facts`.
        explains: By stage, whether it explains anything.
        odd_row: Spans that send their trace to the objects.
        aligned: Traces whose clocks have been brought together.

    Returns:
        Which traces are odd; which are so for their clocks alone; of each span its first child,
        the next child of its parent, by id; its stage; the rows of each trace in order of start;
        the requests (r, 4): their row, trace, whether they are outermost, how many spans.
    """
    rows = len(span_id)
    odd = np.zeros(len(first) - 1, np.bool_)
    skewed = np.zeros(len(first) - 1, np.bool_)
    parent = np.full(rows, -1, np.int64)
    child = np.full(rows, -1, np.int64)
    following = np.full(rows, -1, np.int64)
    stage = np.empty(rows, np.int64)
    by_start = np.empty(rows, np.int64)
    by_id = np.empty(rows, np.int64)
    order = np.empty(rows, np.int64)
    around = np.zeros(rows, np.int64)
    purpose = np.empty(rows, np.int64)
    step_stage = np.empty(rows, np.int64)  # before it is known what calls were made for
    answered = np.zeros(rows, np.bool_)
    calls = np.zeros(rows, np.bool_)  # of a server span that it is the parent of
    size = np.ones(rows, np.int64)
    requests = np.empty((rows, 4), np.int64)
    made = 0
    for trace in range(len(first) - 1):
        begin, beyond = first[trace], first[trace + 1]
        odd[trace] = True
        usual = True
        for row in range(begin, beyond):
            if (
                odd_row[row]
                or facts[kind[row], ODD]
                or sent_ns[row] < 0
                or end_ns[row] < sent_ns[row]
            ):
                usual = False
                break
        if not usual:
            continue

        # In order of ids, none twice; then of start.
        if beyond - begin > _FEW:
            by_id[begin:beyond] = begin + np.argsort(span_id[begin:beyond], kind="mergesort")
        else:
            for row in range(begin, beyond):
                place = row
                while place > begin and span_id[by_id[place - 1]] > span_id[row]:
                    by_id[place] = by_id[place - 1]
                    place -= 1
                by_id[place] = row
        for place in range(begin + 1, beyond):
            if span_id[by_id[place - 1]] == span_id[by_id[place]]:
                usual = False
        if not usual:
            continue
        if beyond - begin > _FEW:
            starts = start_ns[by_id[begin:beyond]]
            by_start[begin:beyond] = by_id[begin:beyond][np.argsort(starts, kind="mergesort")]
        else:
            for at in range(begin, beyond):
                row, place = by_id[at], at
                while place > begin and start_ns[by_start[place - 1]] > start_ns[row]:
                    by_start[place] = by_start[place - 1]
                    place -= 1
                by_start[place] = row

        # Parents. Without a root, a server span whose caller is not traced is one.
        heads = orphans = 0
        fill = begin
        for at in range(beyond - 1, begin - 1, -1):
            row = by_id[at]
            wanted = parent_id[row]
            if wanted == NO_PARENT:
                heads += 1
                order[fill] = row
                fill += 1
                continue
            low, high = begin, beyond
            while high - low > 1:
                middle = (low + high) // 2
                if span_id[by_id[middle]] <= wanted:
                    low = middle
                else:
                    high = middle
            above = by_id[low]
            if span_id[above] == wanted:
                parent[row] = above
                following[row] = child[above]
                child[above] = row
            else:
                orphans += 1
                usual = usual and facts[kind[row], SERVER] != 0
                order[fill] = row
                fill += 1
        if not usual or (heads and orphans):
            continue

        # Each parent before its children; what is not reached goes round.
        at = begin
        while at < fill:
            below = child[order[at]]
            while below >= 0:
                order[fill] = below
                fill += 1
                below = following[below]
            at += 1
        if fill < beyond:
            continue

        before = made
        for at in range(begin, beyond):
            row = order[at]
            above = parent[row]
            if above < 0:
                requests[made] = (row, trace, 1, 0)
                made += 1
                around[row] = 1
                continue
            around[row] = around[above]
            usual = usual and not facts[kind[above], LEAF_ONLY]
            elsewhere = facts[kind[row], SERVICE] != facts[kind[above], SERVICE]
            if elsewhere and facts[kind[row], SERVER]:
                calls[above] = facts[kind[above], CLIENT] != 0
                usual = usual and around[row] <= MAX_NESTED_REQUESTS
                requests[made] = (row, trace, 0, 0)
                made += 1
                around[row] += 1
            # Clocks agree if the child may lie within its parent as they are.
            if facts[kind[row], CLOCK] != facts[kind[above], CLOCK]:
                low = sent_ns[above] - sent_ns[row]
                high = end_ns[above] - end_ns[row]
                if not aligned[trace] and (low > 0 or low <= high < 0):
                    skewed[trace] = True
        for at in range(beyond - 1, begin - 1, -1):
            row = order[at]
            above = parent[row]
            if above >= 0:
                size[above] += size[row]
                if answered[row] or (facts[kind[row], SERVICE] != facts[kind[above], SERVICE]):
                    answered[above] = True
        nested = 0
        for one in range(before, made):
            requests[one, 3] = size[requests[one, 0]]
            if not requests[one, 2]:
                nested += requests[one, 3]
        if not usual or nested > MAX_NESTED_SPANS or made - before > _MOST_REQUESTS:
            skewed[trace] = False
            made = before
            continue
        if skewed[trace]:
            made = before
            continue

        # What calls were made for.
        for at in range(begin, beyond):
            row = order[at]
            above = parent[row]
            stage[row] = facts[kind[row], STAGE]
            if stage[row] == _OTHER and above >= 0 and facts[kind[row], IS_STEP]:
                stage[row] = step_stage[above]
            step_stage[row] = stage[row]
            if calls[row] and (stage[row] == _OTHER or stage[row] == _UNATTRIBUTED):
                stage[row] = _NETWORK
            for_what = -1
            if above >= 0 and facts[kind[row], SERVICE] == facts[kind[above], SERVICE]:
                for_what = purpose[above]
            if stage[row] != _NETWORK:
                purpose[row] = stage[row] if explains[stage[row]] else for_what
                continue
            purpose[row] = for_what
            if for_what >= 0 and facts[kind[row], CLIENT] and not answered[row]:
                stage[row] = for_what

        # The outermost first, in order of start, then of ids.
        for one in range(before + 1, made):
            row, outermost, spans = requests[one, 0], requests[one, 2], requests[one, 3]
            place = one
            while place > before:
                other = requests[place - 1, 0]
                if requests[place - 1, 2] != outermost:
                    later = outermost == 1
                elif start_ns[other] != start_ns[row]:
                    later = start_ns[other] > start_ns[row]
                else:
                    later = span_id[other] > span_id[row]
                if not later:
                    break
                requests[place] = requests[place - 1]
                place -= 1
            requests[place] = (row, trace, outermost, spans)
        odd[trace] = False
    return odd, skewed, child, following, stage, by_start, requests[:made]


def lay_out_trees(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - columns, and loops without calls
    requests: _Column,
    start_ns: _Column,
    end_ns: _Column,
    kind: _Column,
    facts: _Column,
    stage: _Column,
    child: _Column,
    following: _Column,
    packed: _Column,
    packed_times: _Column,
) -> tuple[
    _Column, _Column, _Column, _Column, _Column, _Column, _Column, _Flags, _Flags,
    _Column, _Column, _Column, _Column,
]:  # fmt: skip
    """Lay each request's tree out as columns, its spans clipped from the top down.

    Args:
        requests: From `link_spans`.
        start_ns: By span, as sent.
        end_ns: Likewise.
        kind: Of each span its row of the facts.
        facts: See `analysis.columns.facts`.
        stage: By span, from `link_spans`, as the next two.
        child: Its first child.
        following: The next child of its parent.
        packed: Where the intervals packed on each span begin (n + 1,).
        packed_times: Their starts and ends from the start of their span, and stages.

    Returns:
        Where each tree begins; of each of its spans the row, the parent's place (-1: none),
        start, end, stage, children, whether it outlives its parent, whether it was clipped;
        where its intervals begin, their start, end and stage.
    """
    first = np.zeros(len(requests) + 1, np.int64)
    for request in range(len(requests)):
        first[request + 1] = first[request] + requests[request, 3]
    spans = first[-1]
    rows = np.empty(spans, np.int64)
    above = np.empty(spans, np.int64)
    begin_ns = np.empty(spans, np.int64)
    finish_ns = np.empty(spans, np.int64)
    stages = np.empty(spans, np.int64)
    children = np.zeros((spans, 2), np.int64)
    outlives = np.zeros(spans, np.bool_)
    clipped = np.zeros(spans, np.bool_)
    most = 0
    for request in range(len(requests)):
        base = first[request]
        fill = base + 1
        rows[base] = requests[request, 0]
        above[base] = -1
        begin_ns[base] = start_ns[rows[base]]
        finish_ns[base] = end_ns[rows[base]]
        at = base
        while at < fill:
            row = rows[at]
            stages[at] = stage[row]
            most += packed[row + 1] - packed[row] + 1
            low_ns, high_ns, process = begin_ns[at], finish_ns[at], facts[kind[row], KNOWN_PROCESS]
            children[at, 0] = fill
            below = child[row]
            while below >= 0:  # in order of ids
                from_ns = min(max(start_ns[below], low_ns), high_ns)
                to_ns = min(max(end_ns[below], low_ns), high_ns)
                place = fill
                if fill - children[at, 0] < _FEW:
                    while place > children[at, 0] and begin_ns[place - 1] > from_ns:
                        rows[place] = rows[place - 1]
                        begin_ns[place] = begin_ns[place - 1]
                        finish_ns[place] = finish_ns[place - 1]
                        place -= 1
                rows[place] = below
                begin_ns[place] = from_ns
                finish_ns[place] = to_ns
                fill += 1
                below = following[below]
            one, beyond = children[at, 0], fill
            children[at, 1] = beyond
            if beyond - one > _FEW:
                # The first few are in order by start already, which is no harm: ties stay.
                in_order = np.argsort(begin_ns[one:beyond], kind="mergesort")
                rows[one:beyond] = rows[one:beyond][in_order]
                begin_ns[one:beyond] = begin_ns[one:beyond][in_order]
                finish_ns[one:beyond] = finish_ns[one:beyond][in_order]
            for place in range(one, beyond):
                below = rows[place]
                above[place] = at
                moved = begin_ns[place] != start_ns[below] or finish_ns[place] != end_ns[below]
                waits = facts[kind[below], MESSAGE] == HANG_UP and child[below] < 0
                is_same = process >= 0 and facts[kind[below], KNOWN_PROCESS] == process
                clipped[place] = moved and not (waits or (is_same and start_ns[below] >= high_ns))
                outlives[place] = (
                    finish_ns[place] >= high_ns
                    and end_ns[below] > end_ns[row]
                    and facts[kind[below], CLOCK] == facts[kind[row], CLOCK]
                )
            at += 1

    intervals = np.zeros(spans + 1, np.int64)
    interval_start_ns = np.empty(most, np.int64)
    interval_end_ns = np.empty(most, np.int64)
    interval_stage = np.empty(most, np.int64)
    made = 0
    for at in range(spans):
        row = rows[at]
        one = made
        for place in range(packed[row], packed[row + 1]):
            from_ns = max(start_ns[row] + packed_times[place, 0], begin_ns[at])
            to_ns = min(start_ns[row] + packed_times[place, 1], finish_ns[at])
            if from_ns < to_ns:
                interval_start_ns[made] = from_ns
                interval_end_ns[made] = to_ns
                interval_stage[made] = packed_times[place, 2]
                made += 1
        for place in range(children[at, 0], children[at, 1]):
            if (
                facts[kind[rows[place]], MESSAGE] == SENT
                and children[place, 0] == children[place, 1]
                and begin_ns[place] < finish_ns[place]
            ):
                interval_start_ns[made] = begin_ns[place]
                interval_end_ns[made] = finish_ns[place]
                interval_stage[made] = _RESPOND
                made += 1
        if made - one > _FEW:
            in_order = np.argsort(interval_start_ns[one:made], kind="mergesort")
            interval_start_ns[one:made] = interval_start_ns[one:made][in_order]
            interval_end_ns[one:made] = interval_end_ns[one:made][in_order]
            interval_stage[one:made] = interval_stage[one:made][in_order]
        else:
            for at_one in range(one + 1, made):
                place = at_one
                from_ns, to_ns = interval_start_ns[at_one], interval_end_ns[at_one]
                of_stage = interval_stage[at_one]
                while place > one and interval_start_ns[place - 1] > from_ns:
                    interval_start_ns[place] = interval_start_ns[place - 1]
                    interval_end_ns[place] = interval_end_ns[place - 1]
                    interval_stage[place] = interval_stage[place - 1]
                    place -= 1
                interval_start_ns[place] = from_ns
                interval_end_ns[place] = to_ns
                interval_stage[place] = of_stage
        intervals[at + 1] = made
    for at in range(spans):  # nobody waits for what waits for the caller to leave
        if (
            above[at] >= 0
            and facts[kind[rows[at]], MESSAGE] == HANG_UP
            and children[at, 0] == children[at, 1]
        ):
            finish_ns[at] = begin_ns[at]
    return (
        first, rows, above, begin_ns, finish_ns, stages, children, outlives, clipped,
        intervals, interval_start_ns[:made], interval_end_ns[:made], interval_stage[:made],
    )  # fmt: skip
