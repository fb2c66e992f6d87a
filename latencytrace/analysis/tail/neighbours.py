"""Waits of requests for others' work in steps that served them together.

A step that serves many takes a fixed time and more for each piece of work in it: tokens where
they are known, else members. How much more is fitted over the steps themselves, by kind. So a
member costs the others what the step would be shorter by without it; the fixed time, which a
step of one pays as well, belongs to no request.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis import weighted
from latencytrace.model.cohorts.request_columns import weights_of

LEAST_STEPS: Final = 30  # of a kind, for a fit
LEAST_REQUESTS: Final = 10  # of each group
LEAST_SHARE: Final = 0.1  # of what others cost: a culprit with less is not named
OUT_OF_PROPORTION: Final = 1.25  # how much more of the cost than of the members is a culprit's
MOST_CULPRITS: Final = 5
NO_WEIGHTS: Final[Mapping[str, int]] = MappingProxyType({})
RESAMPLES: Final = 1000
_TOLD: Final = (0.025, 0.975)  # a 95 % interval
_SEED: Final = 20_240_601

Floats = NDArray[np.float64]
Labels = tuple[tuple[str, str], ...]  # keys and values: of the route, the tenant …


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One request in a step."""

    trace_id: str
    work: int
    labels: Labels  # none: they were not read


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step that served several requests together."""

    kind: str  # steps of a kind have the same costs
    wall_ns: int
    work: int  # of all members, those unknown included
    members: Sequence[Member]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A request that waited for a step to end."""

    trace_id: str
    step: Step
    held_up_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """Trait of requests that cost the tail more than their number explains."""

    key: str
    value: str
    cost_share_ratio: float  # of what others cost the tail
    member_share_ratio: float  # of the others that were in its steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Cost of others' work in shared steps to a request of the tail, and to a usual one."""

    tail_requests: int  # looked at
    reference_requests: int
    steps: int
    tail_mean_ns: float
    reference_mean_ns: float
    low_ns: float  # 95 % interval of the difference
    high_ns: float
    culprits: tuple[Culprit, ...]  # the greatest cost first


def neighbours(
    tail: Mapping[str, Sequence[Wait]],
    reference: Mapping[str, Sequence[Wait]],
    weight_of: Mapping[str, int] = NO_WEIGHTS,
) -> Neighbours | None:
    """Find what others cost the requests of the tail, and the usual ones.

    Args:
        tail: The waits of each request that was looked at, none included.
        reference: Requests to compare with.
        weight_of: How many requests each of them stands for, where it is more than one.

    Returns:
        None: too few requests, or of no kind there are steps enough.
    """
    every = [wait for waits in (*tail.values(), *reference.values()) for wait in waits]
    steps = {id(wait.step): wait.step for wait in every}
    slopes = _slopes(steps.values())
    costs, usual = (_costs(group, slopes, weight_of) for group in (tail, reference))
    if not slopes or min(costs.effective, usual.effective) < LEAST_REQUESTS:
        return None
    low_ns, high_ns = _interval(costs, usual)
    return Neighbours(
        tail_requests=len(tail),
        reference_requests=len(reference),
        steps=sum(step.kind in slopes for step in steps.values()),
        tail_mean_ns=costs.mean_ns,
        reference_mean_ns=usual.mean_ns,
        low_ns=low_ns,
        high_ns=high_ns,
        culprits=_culprits([wait for waits in tail.values() for wait in waits], slopes, weight_of),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Costs:
    """The cost of others to each request of a group."""

    ns: Floats
    weight: NDArray[np.int64] | None

    @property
    def effective(self) -> float:
        """How many of equal weight would say as much."""
        return weighted.effective(len(self.ns), self.weight)

    @property
    def mean_ns(self) -> float:
        return float(weighted.mean(self.ns, self.weight))

    def drawn_ns(self, random: np.random.Generator) -> Floats:
        """The means of requests that are drawn again, each with its weight."""
        rows = random.choice(len(self.ns), (RESAMPLES, len(self.ns)))
        if self.weight is None:
            return np.asarray(self.ns[rows].mean(axis=1))
        return np.average(self.ns[rows], axis=1, weights=self.weight[rows])


def _costs(
    group: Mapping[str, Sequence[Wait]],
    slopes: Mapping[str, float],
    weight_of: Mapping[str, int],
) -> _Costs:
    costs = [sum(_cost_ns(wait, slopes) for wait in waits) for waits in group.values()]
    weight = np.array([weight_of.get(trace_id, 1) for trace_id in group], np.int64)
    return _Costs(ns=np.array(costs), weight=weights_of(weight))


def _slopes(steps: Iterable[Step]) -> dict[str, float]:
    """By kind: how much longer a step is for each piece of work; 0 where that is not proven."""
    by_kind: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        by_kind[step.kind].append(step)
    return {
        kind: _slope(
            np.array([step.work for step in some], np.float64),
            np.array([step.wall_ns for step in some], np.float64),
        )
        for kind, some in by_kind.items()
        if len(some) >= LEAST_STEPS
    }


def _slope(work: Floats, wall_ns: Floats) -> float:
    """The slope of the line through all steps, by least squares; 0: it may as well be none."""
    spread = work - work.mean()
    squares = float(spread @ spread)
    if squares <= 0:
        return 0.0
    slope = float(spread @ wall_ns) / squares
    left = wall_ns - wall_ns.mean() - slope * spread
    error = float(np.sqrt(left @ left / (len(work) - 2) / squares))
    return slope if slope > 2 * error else 0.0


def _cost_ns(wait: Wait, slopes: Mapping[str, float]) -> float:
    """How long all others held a request up in a step."""
    own = sum(one.work for one in wait.step.members if one.trace_id == wait.trace_id)
    return _held_up_by_ns(wait, wait.step.work - own, slopes)


def _held_up_by_ns(wait: Wait, work: int, slopes: Mapping[str, float]) -> float:
    """How long so much work held a request up: its part of the time that it waited."""
    if wait.step.wall_ns <= 0:
        return 0.0
    part = slopes.get(wait.step.kind, 0.0) * work / wait.step.wall_ns
    return wait.held_up_ns * min(part, 1.0)


def _interval(costs: _Costs, usual: _Costs) -> tuple[float, float]:
    """The 95 % interval of the difference of the means, by drawing requests again."""
    random = np.random.default_rng(_SEED)
    drawn = [each.drawn_ns(random) for each in (costs, usual)]
    low_ns, high_ns = np.quantile(drawn[0] - drawn[1], _TOLD).tolist()
    return low_ns, high_ns


def _culprits(
    waits: Sequence[Wait], slopes: Mapping[str, float], weight_of: Mapping[str, int]
) -> tuple[Culprit, ...]:
    costs: dict[tuple[str, str], float] = defaultdict(float)
    members: dict[tuple[str, str], int] = defaultdict(int)
    whole, count = 0.0, 0
    for wait in waits:
        if wait.step.kind not in slopes:
            continue
        for one in wait.step.members:
            if one.trace_id == wait.trace_id or not one.labels:
                continue
            weight = weight_of.get(wait.trace_id, 1)
            cost_ns = weight * _held_up_by_ns(wait, one.work, slopes)
            whole, count = whole + cost_ns, count + weight
            for label in set(one.labels):
                costs[label] += cost_ns
                members[label] += weight
    if whole <= 0:
        return ()
    found = [
        Culprit(
            key=key,
            value=value,
            cost_share_ratio=cost_ns / whole,
            member_share_ratio=members[key, value] / count,
        )
        for (key, value), cost_ns in costs.items()
    ]
    named = [
        one
        for one in found
        if one.cost_share_ratio >= LEAST_SHARE
        and one.cost_share_ratio >= OUT_OF_PROPORTION * one.member_share_ratio
    ]
    return tuple(sorted(named, key=lambda one: (-one.cost_share_ratio, one.key))[:MOST_CULPRITS])
