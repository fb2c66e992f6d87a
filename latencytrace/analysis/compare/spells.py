"""Slow spells: stretches of time in which a side was much slower than in the rest of it.

One incident resembles nothing else of its side. Taken as what requests are usually like, it
makes all neighbours alike, so that nothing can be proven, or it passes for a change of the other
side. So the stretches that stand out are found and left out of the comparison, and named.

A side is cut into cells of as many requests. The stretch of cells whose mean stands out most is
taken away, and again of what is left. A stretch counts if it stands out by far against what is
left, whose cells may resemble each other: a rhythm, a ramp or a slow drift does not.

Source: Olshen, Venkatraman, Lucito and Wigler, "Circular binary segmentation for the analysis of
array-based DNA copy number data", Biostatistics 2004, for the search.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.compare.shifts import (
    LEAST_SHARE,
    Floats,
    series,
    series_correlation_time,
)
from latencytrace.model import Stage
from latencytrace.model.cohorts.request_columns import STAGES, RequestColumns

MOST: Final = 3  # of a side; where there are more, slow spells are what it is like
MOST_CELLS: Final = 128
LEAST_CELLS: Final = 12
LEAST_IN_CELL: Final = 20  # requests
STANDS_OUT: Final = 10.0  # standard errors; of independent requests chance reaches 6
LEAST_TIMES: Final = 1.1  # as slow, on average: less is not worth a name
SUDDEN_RATIO: Final = 0.75  # of the whole rise that its first quarter has; of a wave 0.6

Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A slow stretch of a side."""

    start_ns: int  # of its first request, since the Unix epoch
    end_ns: int  # of the start of its last
    requests: int
    share_ratio: float  # of the side's requests
    mean_ns: float
    usual_ns: float  # the mean of the side's other requests
    stage: Stage  # that most of the difference is in


def spells(side: RequestColumns) -> tuple[tuple[Spell, ...], Rows]:
    """The slow spells of a side, in order of time; and the rows that are left without them.

    Args:
        side: Requests in order of start.
    """
    count = len(side)
    whole = np.arange(count)
    cells = min(MOST_CELLS, count // LEAST_IN_CELL)
    if cells < LEAST_CELLS:
        return (), whole
    ends = (np.arange(cells + 1) * count) // cells
    found = _standing_out(_cell_means(side, ends[:-1]))
    rows = [(int(ends[begin]), int(ends[end])) for begin, end in found]
    usual_ns = float(side.duration_ns[~_within(rows, count)].mean()) if rows else 0.0
    rows = [
        (begin, end)
        for begin, end in rows
        if side.duration_ns[begin:end].mean() >= LEAST_TIMES * usual_ns
    ]
    slow = _within(rows, count)
    return tuple(_spell(side, begin, end, slow) for begin, end in rows), np.flatnonzero(~slow)


def _within(rows: Sequence[tuple[int, int]], count: int) -> Flags:
    """Which rows are within one of these stretches."""
    inside = np.zeros(count, np.bool_)
    for begin, end in rows:
        inside[begin:end] = True
    return inside


def _cell_means(side: RequestColumns, first: Rows) -> Floats:
    """The means by cell of all series: of durations, and of each stage that takes some time."""
    matters = side.stages_ns.sum(axis=0) >= LEAST_SHARE * side.duration_ns.sum()
    measures = (side.duration_ns, *side.stages_ns.T[matters])
    sizes = np.diff(np.append(first, len(side)))
    return np.array([np.add.reduceat(one, first) / sizes for ns in measures for one in series(ns)])


def _standing_out(means: Floats) -> list[tuple[int, int]]:
    """The stretches of cells that stand out by far; none, where there are more than `MOST`.

    Each has a cell more at its ends: what began or ended within a cell is of the spell, too.
    """
    slow = np.zeros(means.shape[1], np.bool_)
    pieces: list[slice] = []  # one may be found in several
    found: list[tuple[int, int]] = []
    usual = means
    while len(pieces) < 2 * MOST:
        pieces.append(_highest(means, slow))
        slow[max(pieces[-1].start - 1, 0) : pieces[-1].stop + 1] = True
        if np.count_nonzero(~slow) < LEAST_CELLS:
            break
        if _stand_out(means, pieces, ~slow):
            edges = np.flatnonzero(np.diff(slow, prepend=False, append=False))
            found = [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]
            usual = means[:, ~slow]
    if len(found) > MOST or not all(_is_sudden(means, stretch, usual) for stretch in found):
        return []
    return found


def _is_sudden(means: Floats, stretch: tuple[int, int], usual: Floats) -> bool:
    """Tell whether a stretch begins or ends at once, as no rhythm of the day does."""
    begin = stretch[0] + (stretch != (0, 2))  # whole cells of it: the first is one, without more
    end = max(stretch[1] - 1, begin + 1)
    apart = means[:, begin:end].mean(axis=1) - usual.mean(axis=1)
    error = usual.std(axis=1)
    error[error == 0] = math.inf
    row = int((apart / error).argmax())
    one, width = means[row], min(max((end - begin) // 4, 2), end - begin)
    steps = []
    if stretch[0] >= width:
        steps.append(one[begin : begin + width].mean() - one[begin - 1 - width : begin - 1].mean())
    if stretch[1] + width <= len(one):
        steps.append(one[end - width : end].mean() - one[end + 1 : end + 1 + width].mean())
    return not steps or max(steps) >= SUDDEN_RATIO * apart[row]


def _highest(means: Floats, slow: Flags) -> slice:
    """The stretch whose mean exceeds that of the rest most, in standard errors of single cells.

    Args:
        means: By series and cell.
        slow: Cells that are of a stretch already; they are of no other, and not of the rest.
    """
    usual = ~slow
    sums, counts, before = (
        np.concatenate([np.zeros((*one.shape[:-1], 1)), np.cumsum(one, axis=-1)], axis=-1)
        for one in (means * usual, usual, slow)
    )
    begin, end = np.triu_indices(means.shape[1] + 1, 1)
    inside, outside = counts[end] - counts[begin], counts[-1] - counts[end] + counts[begin]
    is_one = (before[end] == before[begin]) & (outside > 0)
    begin, end, inside, outside = begin[is_one], end[is_one], inside[is_one], outside[is_one]
    within = sums[:, end] - sums[:, begin]
    apart = within / inside - (sums[:, -1:] - within) / outside
    error = means[:, usual].std(axis=1, keepdims=True)
    error[error == 0] = math.inf
    best = int((apart / error * np.sqrt(inside * outside)).max(axis=0).argmax())
    return slice(int(begin[best]), int(end[best]))


def _stand_out(means: Floats, pieces: Sequence[slice], rest: Flags) -> bool:
    """Tell whether some series is higher in each piece than chance would have it."""
    usual = means[:, rest]
    alike = np.array([series_correlation_time(one) for one in usual])
    variance = usual.var(axis=1) * alike
    for piece in pieces:
        inside = means[:, piece]
        error = np.sqrt(variance * (1 / inside.shape[1] + 1 / usual.shape[1]))
        if not (inside.mean(axis=1) - usual.mean(axis=1) > STANDS_OUT * error).any():
            return False
    return True


def _spell(side: RequestColumns, begin: int, end: int, slow: Flags) -> Spell:
    inside = slice(begin, end)
    stages = side.stages_ns[inside].mean(axis=0) - side.stages_ns[~slow].mean(axis=0)
    return Spell(
        start_ns=int(side.start_ns[begin]),
        end_ns=int(side.start_ns[end - 1]),
        requests=end - begin,
        share_ratio=(end - begin) / len(side),
        mean_ns=float(side.duration_ns[inside].mean()),
        usual_ns=float(side.duration_ns[~slow].mean()),
        stage=STAGES[int(stages.argmax())],
    )
