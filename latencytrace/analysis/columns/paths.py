"""Critical paths with waits for the next attempt of a call, and pauses of processes.

What `analysis.gpu.engine_steps`, `analysis.calls.waits` and `analysis.ledger.runtime_gaps` do
object by object; those are the oracles. The functions are in `compiled/paths.c`.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.compiled.core import bind, needed
from latencytrace.analysis.columns.facts import FACTS, IS_STEP, OF_RESOURCES, PROCESS
from latencytrace.model import Stage
from latencytrace.model.packed.interval import RuntimeGap
from latencytrace.model.stage import STAGES

_Column = NDArray[np.int64]
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
    }
)  # fmt: skip


def fill_pauses(  # noqa: PLR0913 - columns
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
        tree_rows: Of each place in a tree the span.
        above: Place of the parent of each place.
        held_ns: Until when each place holds up its parent.
        stages: Stage of each place.
        attempt: The failed attempt of each place.
        awaited: Until when the parent of each place waits for the next attempt.
        start_ns: Start of each span, as sent.
        span_id: As signed numbers of the same order.
        kind: Of each span its row of the facts.
        resource: Row of `resources` of each span.
        tells: The spans that tell gaps.
        gaps: Where those of each begin (n + 1,).
        gap: Start and end, from the span's start, and title of each; none overlap.
        collection: The title of a collection of garbage.

    Returns:
        Segments (s, 6), see above, from the start of their request; where those of each request
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
