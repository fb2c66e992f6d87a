"""Critical paths over columns in which waits for a processor fill what is unattributed.

`analysis.ledger.processor_waits` is the oracle. Only requests whose thread waited a millisecond or
more are walked, one by one.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.critical_paths import (
    BEGIN,
    END,
    IN_STAGE,
    OWN_NAME,
    PLACE,
    TITLE,
)
from latencytrace.model import Stage
from latencytrace.model.stage import STAGES

_Column = NDArray[np.int64]

_RUNTIME: Final = STAGES.index(Stage.RUNTIME)
_UNATTRIBUTED: Final = STAGES.index(Stage.UNATTRIBUTED)


def with_processor_waits(
    paths: tuple[_Column, _Column, _Column],
    waited_ns: _Column,
    process: _Column,
    roots: _Column,
    title: int,
) -> tuple[_Column, _Column, _Column]:
    """Fill what is unattributed with waits for a processor.

    Args:
        paths: The result of `paths.fill_pauses`; its arrays are changed.
        waited_ns: Of each request (r,); 0: it did not, or nothing tells.
        process: Of each place in the trees a number of its process.
        roots: The place of each request's root (r,).
        title: The number of the title of such a wait.

    Returns:
        The same with more segments, in order.
    """
    segments, first, ledger = paths
    cuts: list[tuple[int, int]] = []  # where a segment is cut in two, and its second part's start
    requests = np.flatnonzero(waited_ns > 0)
    for request in requests.tolist():
        begin, beyond = first[request : request + 2].tolist()
        some = segments[begin:beyond]
        lengths_ns = some[:, END] - some[:, BEGIN]
        unexplained = (some[:, IN_STAGE] == _UNATTRIBUTED) & (
            process[some[:, PLACE]] == process[roots[request]]
        )
        left_ns = int(waited_ns[request]) - int(lengths_ns[~unexplained].sum())
        places = np.flatnonzero(unexplained)
        for place in places[np.argsort(-lengths_ns[places], kind="stable")].tolist():
            if left_ns <= 0:
                break
            filled_ns = min(left_ns, int(lengths_ns[place]))
            if filled_ns < lengths_ns[place]:
                cuts.append((begin + place, int(some[place, BEGIN]) + filled_ns))
            some[place, [IN_STAGE, TITLE]] = _RUNTIME, title
            ledger[request, [_RUNTIME, _UNATTRIBUTED]] += filled_ns, -filled_ns
            left_ns -= filled_ns
    return (*_cut(segments, first, cuts), ledger)


def _cut(
    segments: _Column, first: _Column, cuts: list[tuple[int, int]]
) -> tuple[_Column, _Column]:
    """Segments of which some are cut in two, the second part being unattributed."""
    if not cuts:
        return segments, first
    places, starts_ns = np.array(cuts, np.int64).T
    rest = segments[places]
    rest[:, BEGIN] = starts_ns
    rest[:, [IN_STAGE, TITLE]] = _UNATTRIBUTED, OWN_NAME
    segments[places, END] = starts_ns
    more = np.searchsorted(places, first)  # each comes before where its request ends
    return np.insert(segments, places + 1, rest, axis=0), first + more
