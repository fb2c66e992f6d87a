"""From columns of spans to one well-formed tree a request: array functions (`compiled/trees.c`).

What `analysis.build_trace` does span by span, where nothing is to be mended but that spans stick
out of their parents. That module is the oracle: it says why each step is taken.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.build_trace import MAX_NESTED_REQUESTS, MAX_NESTED_SPANS
from latencytrace.analysis.calls.retries import MAX_SIDE_BY_SIDE
from latencytrace.analysis.columns.compiled.core import bind, needed
from latencytrace.analysis.columns.facts import (
    CLIENT,
    CLOCK,
    FACTS,
    FAILED,
    HANG_UP,
    IS_STEP,
    KNOWN_PROCESS,
    LEAF_ONLY,
    MESSAGE,
    ODD,
    OF_RESOURCES,
    PROCESS,
    RESENT,
    SENT,
    SERVER,
    SERVICE,
    STAGE,
    WORTH_ANOTHER,
)
from latencytrace.model import Stage
from latencytrace.model.stage import STAGES

_Column = NDArray[np.int64]
_Flags = NDArray[np.bool_]

NO_PARENT: Final = -(1 << 63)  # an id of 0, made signed
bind(
    {
        "FACTS": FACTS, "OF_RESOURCES": OF_RESOURCES, "FAILED": FAILED, "RESENT": RESENT,
        "WORTH_ANOTHER": WORTH_ANOTHER, "PROCESS": PROCESS,
        "CLIENT": CLIENT, "CLOCK": CLOCK, "IS_STEP": IS_STEP,
        "KNOWN_PROCESS": KNOWN_PROCESS, "LEAF_ONLY": LEAF_ONLY, "MESSAGE": MESSAGE, "ODD": ODD,
        "SERVER": SERVER, "SERVICE": SERVICE, "STAGE": STAGE, "HANG_UP": HANG_UP, "SENT": SENT,
        "STAGES": len(STAGES),
        "NETWORK": STAGES.index(Stage.NETWORK), "OTHER": STAGES.index(Stage.OTHER),
        "RESPOND": STAGES.index(Stage.RESPOND), "RETRY": STAGES.index(Stage.RETRY),
        "UNATTRIBUTED": STAGES.index(Stage.UNATTRIBUTED),
        "NO_PARENT": NO_PARENT, "MAX_NESTED_REQUESTS": MAX_NESTED_REQUESTS,
        "MAX_NESTED_SPANS": MAX_NESTED_SPANS,
        "MOST_REQUESTS": 256,  # of one trace; of more, objects take care
        "MOST_TRIED": MAX_SIDE_BY_SIDE,  # calls of one span, likewise
    }
)  # fmt: skip


def link_spans(
    first: _Column,
    span_id: _Column,
    parent_id: _Column,
    sent_ns: _Column,
    start_ns: _Column,
    end_ns: _Column,
    kind: _Column,
    facts: _Column,
    resource: _Column,
    resources: _Column,
    explains: _Flags,
    odd_row: _Flags,
    aligned: _Flags,
) -> tuple[_Flags, _Flags, _Column, _Column, _Column, _Column, _Column]:
    """Find each span's parent, the requests, and the traces that objects must take.

    Args:
        first: Where each trace begins.
        span_id: As signed numbers of the same order.
        parent_id: As signed numbers; `NO_PARENT`: none.
        sent_ns: The starts of the spans as sent.
        start_ns: Starts, from when a proxy took a request that it held back.
        kind: Row of each span in the facts.
        resource: Row of each span in `resources`.
        explains: By stage, whether it explains anything.
        odd_row: Spans that send their trace to the objects.
        aligned: Traces whose clocks have been brought together.

    Returns:
        Which traces are odd; which are so for their clocks alone; of each span its first child,
        the next child of its parent, by id; its stage; the rows of each trace in order of start;
        the requests (r, 4): their
        row, trace, whether they are outermost, how many spans.
    """
    rows, traces = len(span_id), len(first) - 1
    odd, skewed = np.empty(traces, np.bool_), np.empty(traces, np.bool_)
    child, following = np.empty(rows, np.int64), np.empty(rows, np.int64)
    stage, by_start = np.empty(rows, np.int64), np.empty(rows, np.int64)
    requests = np.empty((rows, 4), np.int64)
    made = needed().link_spans(
        first, span_id, parent_id, sent_ns, start_ns, end_ns, kind, facts, resource, resources,
        explains, odd_row, aligned, odd, skewed, child, following, stage, by_start, requests,
    )  # fmt: skip
    return odd, skewed, child, following, stage, by_start, requests[:made]


def lay_out_trees(
    requests: _Column,
    start_ns: _Column,
    end_ns: _Column,
    kind: _Column,
    facts: _Column,
    resource: _Column,
    resources: _Column,
    target: _Column,
    stage: _Column,
    child: _Column,
    following: _Column,
    is_call: _Flags,
    is_work: _Flags,
    packed: _Column,
    packed_times: _Column,
) -> tuple[
    _Column, _Column, _Column, _Column, _Column, _Column, _Column, _Column, _Column, _Column,
    _Flags, _Flags, _Column, _Column, _Column, _Column,
]:  # fmt: skip
    """Lay each request's tree out as columns, its spans clipped from the top down.

    Failed attempts of calls, and all below them, are of stage `retry` (see `calls.retries`).

    Args:
        requests: From `link_spans`.
        start_ns: By span, as sent.
        kind: Row of each span in the facts.
        resource: Row of each span in `resources`.
        target: By span, what it calls; 0: it does not say.
        stage: Stage of each span, from `link_spans` as the next two.
        child: First child of each span.
        following: Next child of each span's parent.
        is_call: By stage, whether it is a call's (see `trace.purposes`).
        is_work: By stage, whether its spans work themselves (see `calls.waits`).
        packed: Where the intervals packed on each span begin (n + 1,).
        packed_times: Starts and ends of intervals from the start of their span, and stages.

    Returns:
        Where each tree begins; of each span its row, its parent's place (-1: none), start, end,
        until when it holds up its parent (a failed attempt longer than it lasts, what waits for
        the caller to leave not at all), stage, children, the innermost failed attempt that it is
        or lies below (-1: none), until when its parent waits for the next attempt (-1: it does
        not), whether it outlives its parent, whether it was clipped, its intervals.
    """
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(requests[:, 3])))
    spans = int(first[-1])
    rows, above, begin_ns, finish_ns, held_ns = (np.empty(spans, np.int64) for _ in range(5))
    children = np.empty((spans, 2), np.int64)
    stages, attempt, awaited = (np.empty(spans, np.int64) for _ in range(3))
    outlives, clipped = np.empty(spans, np.bool_), np.empty(spans, np.bool_)
    most = needed().lay_out_trees(
        requests, start_ns, end_ns, kind, facts, resource, resources, target, stage, child,
        following, is_call, is_work, packed, first, rows, above, begin_ns, finish_ns, held_ns,
        stages, children, attempt, awaited, outlives, clipped,
    )  # fmt: skip
    intervals = np.empty(spans + 1, np.int64)
    times = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    made = needed().lay_out_intervals(
        start_ns, kind, facts, packed, packed_times, rows, begin_ns, finish_ns, children,
        attempt, intervals, *times,
    )  # fmt: skip
    interval_start_ns, interval_end_ns, interval_stage = (one[:made] for one in times)
    return (
        first, rows, above, begin_ns, finish_ns, held_ns, stages, children, attempt, awaited,
        outlives, clipped, intervals, interval_start_ns, interval_end_ns, interval_stage,
    )  # fmt: skip
