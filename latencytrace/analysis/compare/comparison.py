"""Compare two cohorts: end to end and stage by stage, at equal work and load."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from latencytrace.analysis import weighted
from latencytrace.analysis.compare.matching import Matching, matching
from latencytrace.analysis.compare.shifts import (
    LEAST_BEYOND,
    LEAST_BLOCKS,
    LEAST_SHARE,
    WRONG_AT_MOST,
    Blocks,
    Drawn,
    Shift,
    Side,
    Values,
    are_testable,
    blocks,
    half_width,
    is_testable,
    p_values,
)
from latencytrace.analysis.compare.spells import Spell, spells
from latencytrace.analysis.compare.verdict import AT_LEAST, Verdict
from latencytrace.analysis.weighted import holm
from latencytrace.model import Stage
from latencytrace.model.cohorts.request_columns import STAGES, RequestColumns

DECILES: Final = tuple(tenth / 10 for tenth in range(1, 10))
TESTED: Final = (0.5, 0.95, 0.99)
LEVELS: Final = (*DECILES, 0.95, 0.99)
LEAST_REQUESTS: Final = 50
_SEED: Final = 20_240_601  # the same answer each time
_DIGITS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StageComparison:
    """One stage: its quantiles over all requests, 0 where one has none of it."""

    stage: Stage
    verdict: Verdict
    shifts: tuple[Shift, ...]  # at `TESTED`


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two sides side by side; p values and intervals are corrected for all tests made."""

    verdict: Verdict
    needed_requests: int | None  # of each side; None: there are enough, or no number would do
    matched_on: tuple[str, ...]
    overlap_ratio: float
    unmatched: str | None
    block_requests: tuple[int, int]  # how many neighbours are taken together, of A and of B
    alike_requests: tuple[int, int]  # how many resemble each other; 1: none do, or it is no matter
    spells: tuple[tuple[Spell, ...], tuple[Spell, ...]]  # of A and of B
    shifts: tuple[Shift, ...]  # at `LEVELS`; empty: nothing can be compared
    stages: tuple[StageComparison, ...]  # the largest shift of the median first


def compare(
    a: RequestColumns, b: RequestColumns, *, at_least_ratio: float = AT_LEAST
) -> Comparison:
    """Compare two sides, without their slow spells.

    Args:
        a: What was before.
        b: What is now.
        at_least_ratio: A proven shift counts where it is at least this share of the request's
            own quantile before.
    """
    (slow_a, left_a), (slow_b, left_b) = spells(a), spells(b)
    found = _compared(a.taken(left_a), b.taken(left_b), at_least_ratio)
    return replace(found, spells=(slow_a, slow_b))


def _compared(a: RequestColumns, b: RequestColumns, at_least_ratio: float) -> Comparison:
    requests = [weighted.number(len(side), side.weight) for side in (a, b)]
    effective = [weighted.effective(len(side), side.weight) for side in (a, b)]
    if min(effective) < LEAST_REQUESTS:
        pairs = zip(requests, effective, strict=True)
        times = max(1.0, *(number / max(size, 1.0) for number, size in pairs))
        return _not_compared(math.ceil(LEAST_REQUESTS * times), None, None)
    found = matching(a, b)
    if found.unmatched is not None:
        return _not_compared(None, found, None)
    stages = _stages(a, b, found)
    places = [STAGES.index(stage) for stage in stages]
    sides = (
        Side(weight=found.a, blocks=blocks(a.duration_ns, a.stages_ns.T[places])),
        Side(weight=found.b, blocks=blocks(b.duration_ns, b.stages_ns.T[places])),
    )
    cut = (sides[0].blocks, sides[1].blocks)
    if not are_testable(*sides, TESTED[0]):
        needed = max(LEAST_BLOCKS * one.length for one in cut)
        few = min(side.effective_requests / len(side.weight) for side in sides)
        each = max(requests[0] / len(a), requests[1] / len(b))  # that is recorded stands for
        needed_rows = max(needed, 2 * LEAST_BEYOND / few)
        return _not_compared(_rounded_up(needed_rows * each), found, cut)
    whole = Values(a.duration_ns, sides[0]), Values(b.duration_ns, sides[1])
    measures = [whole] + [
        (Values(a.stages_ns[:, place], sides[0]), Values(b.stages_ns[:, place], sides[1]))
        for place in places
    ]
    shifts, tests = _tested(measures, sides)
    return _judged(shifts, stages, found, cut, tests, min(requests), at_least_ratio)


def _not_compared(
    needed: int | None, found: Matching | None, cut: tuple[Blocks, Blocks] | None
) -> Comparison:
    return Comparison(
        verdict=Verdict.NOT_ENOUGH_DATA,
        needed_requests=needed,
        matched_on=found.on if found else (),
        overlap_ratio=found.overlap_ratio if found else 1.0,
        unmatched=found.unmatched if found else None,
        block_requests=(cut[0].length, cut[1].length) if cut else (1, 1),
        alike_requests=(cut[0].alike, cut[1].alike) if cut else (1, 1),
        spells=((), ()),
        shifts=(),
        stages=(),
    )


def _stages(a: RequestColumns, b: RequestColumns, found: Matching) -> list[Stage]:
    """The stages that take a share of the time that matters, on either side."""
    shares = [
        weight @ columns.stages_ns / max(float(weight @ columns.duration_ns), 1.0)
        for columns, weight in zip((a, b), (found.a, found.b), strict=True)
    ]
    return [
        stage
        for stage, share in zip(STAGES, np.maximum(*shares), strict=True)
        if share >= LEAST_SHARE
    ]


def _tested(
    measures: Sequence[tuple[Values, Values]], sides: tuple[Side, Side]
) -> tuple[list[tuple[Shift, ...]], int]:
    """The shifts of all measures, their p values corrected together; and how many were tested."""
    places = [
        (place, level)
        for place, (in_a, in_b) in enumerate(measures)
        for level in TESTED
        if is_testable(in_a, in_b, level)
    ]
    random = np.random.default_rng(_SEED)
    found = p_values([(*measures[place], level) for place, level in places], random)
    corrected = dict(zip(places, holm(found).tolist(), strict=True))
    drawn = Drawn(*sides, random)
    shifts = []
    for place, (in_a, in_b) in enumerate(measures):
        levels = TESTED if place else LEVELS
        values = [corrected.get((place, level)) for level in levels]
        shifts.append(drawn.shifts(in_a, in_b, levels, values, len(places)))
    return shifts, len(places)


def _judged(
    shifts: Sequence[tuple[Shift, ...]],
    stages: Sequence[Stage],
    found: Matching,
    cut: tuple[Blocks, Blocks],
    tests: int,
    requests: int,
    at_least_ratio: float,
) -> Comparison:
    whole = shifts[0]
    counts_from = {shift.level: at_least_ratio * shift.a_ns for shift in whole}
    half = half_width(tests)
    compared = [
        StageComparison(
            stage=stage, verdict=_verdict(of_stage, counts_from, half), shifts=of_stage
        )
        for stage, of_stage in zip(stages, shifts[1:], strict=True)
    ]
    verdict = _verdict(whole, counts_from, half)
    verdicts = {one.verdict for one in compared}
    proven = {Verdict.REGRESSION, Verdict.IMPROVEMENT}
    if verdict not in proven and verdicts & proven == {Verdict.REGRESSION}:
        verdict = Verdict.REGRESSION  # hidden end to end by what else varies
    median = _at(whole, TESTED[0])
    needed = None
    if verdict is Verdict.NOT_ENOUGH_DATA:
        times = half * median.error_ns / max(counts_from[TESTED[0]], 1.0)
        needed = _rounded_up(requests * times * times)
    return Comparison(
        verdict=verdict,
        needed_requests=needed,
        matched_on=found.on,
        overlap_ratio=found.overlap_ratio,
        unmatched=None,
        block_requests=(cut[0].length, cut[1].length),
        alike_requests=(cut[0].alike, cut[1].alike),
        spells=((), ()),
        shifts=whole,
        stages=tuple(
            sorted(compared, key=lambda one: -max(abs(shift.shift_ns) for shift in one.shifts))
        ),
    )


def _verdict(shifts: Sequence[Shift], counts_from: dict[float, float], half: float) -> Verdict:
    """A proven shift that is large enough; a longer one weighs more than a shorter one.

    Without one there is no change, if a median that had shifted by twice as much as counts
    would have been found.
    """
    proven = [
        shift.shift_ns
        for shift in shifts
        if shift.p_value is not None
        and shift.p_value <= WRONG_AT_MOST
        and abs(shift.shift_ns) >= counts_from[shift.level]
    ]
    if any(shift_ns > 0 for shift_ns in proven):
        return Verdict.REGRESSION
    if proven:
        return Verdict.IMPROVEMENT
    median = _at(shifts, TESTED[0])
    is_sure = half * median.error_ns <= counts_from[median.level]
    return Verdict.NO_CHANGE if is_sure else Verdict.NOT_ENOUGH_DATA


def _at(shifts: Sequence[Shift], level: float) -> Shift:
    return next(shift for shift in shifts if shift.level == level)


def _rounded_up(number: float) -> int:
    """Two digits are all that can be said."""
    size: int = 10 ** max(math.floor(math.log10(max(number, 1))) - _DIGITS + 1, 0)
    return math.ceil(number / size) * size
