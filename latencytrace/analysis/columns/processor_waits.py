"""Critical paths over columns in which waits for a processor fill what is unattributed.

`analysis.ledger.processor_waits` is the oracle.
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
    request = np.repeat(np.arange(len(waited_ns)), np.diff(first))
    at = np.flatnonzero(waited_ns[request] > 0)
    of, lengths_ns = request[at], segments[at, END] - segments[at, BEGIN]
    unexplained = (segments[at, IN_STAGE] == _UNATTRIBUTED) & (
        process[segments[at, PLACE]] == process[roots[of]]
    )
    left_ns = waited_ns.copy()
    np.subtract.at(left_ns, of[~unexplained], lengths_ns[~unexplained])
    places = np.flatnonzero(unexplained)
    places = places[np.lexsort((-lengths_ns[places], of[places]))]  # those of equal length stay
    at, of, lengths_ns = at[places], of[places], lengths_ns[places]
    before_ns = np.cumsum(lengths_ns) - lengths_ns
    before_ns -= before_ns[np.searchsorted(of, of)]  # of the same request alone
    filled_ns = np.clip(left_ns[of] - before_ns, 0, lengths_ns)
    is_filled = filled_ns > 0
    segments[at[is_filled], IN_STAGE], segments[at[is_filled], TITLE] = _RUNTIME, title
    np.add.at(ledger[:, _RUNTIME], of, filled_ns)
    np.subtract.at(ledger[:, _UNATTRIBUTED], of, filled_ns)
    cut = is_filled & (filled_ns < lengths_ns)  # one of a request at most
    return (*_cut(segments, first, at[cut], segments[at[cut], BEGIN] + filled_ns[cut]), ledger)


def _cut(
    segments: _Column, first: _Column, places: _Column, starts_ns: _Column
) -> tuple[_Column, _Column]:
    """Segments of which some are cut in two, the second part being unattributed.

    Args:
        segments: Of all requests.
        first: Where each request's begin (r + 1,).
        places: Places of the cut requests, in order (c,).
        starts_ns: Where the second part of each begins (c,).
    """
    rest = segments[places]
    rest[:, BEGIN] = starts_ns
    rest[:, [IN_STAGE, TITLE]] = _UNATTRIBUTED, OWN_NAME
    segments[places, END] = starts_ns
    more = np.searchsorted(places, first)  # each comes before where its request ends
    return np.insert(segments, places + 1, rest, axis=0), first + more
