"""The cause of a tail: what explains at least half of it, the more specific first."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.tail.groups import Groups, Mask
from latencytrace.analysis.tail.traits import COLD_START, Trait
from latencytrace.model.cohorts.breakdown import MOSTLY, Cause, CauseKind, StageExcess
from latencytrace.model.cohorts.request_columns import STAGES
from latencytrace.model.stage import Stage

QUARTERS = (0.25, 0.5, 0.75)
_NORMAL = 1.349  # standard deviations between the quartiles of a normal distribution
_LIN_MARGIN = 1.2
_LOG_MARGIN = 1.25
_SKEW = 1.4  # how much wider the upper half of an exponential distribution is than its lower
_LOG_SKEW = 1.1


def is_unusual(lengths_ns: NDArray[np.int64], groups: Groups) -> bool:
    """Say whether a stage's length in the tail is more than the stage's own spread.

    The median of the tail is held against the quartiles of the cohort, in two ways. It lies
    farther out than the tail of an exponential distribution would, in standard deviations, and
    than that of a log-normal one, in their logarithms. Where a quarter of the requests or more
    is slow for the same reason, the lower half of the cohort tells the spread.
    """
    tail = groups.median(lengths_ns, groups.tail)
    low, median, high = _weighted_quantiles(lengths_ns, groups.weight)
    if tail <= high:
        return False
    if high <= 0:  # most requests do not have the stage at all
        return True
    share = float(groups.weight[groups.tail].sum() / groups.weight.sum())
    middle = share / 2  # of the tail, from above
    exponential = (-math.log(middle) - math.log(2)) / (math.log(3) / _NORMAL)
    width = min(high - low, 2 * _SKEW * (median - low)) if low > 0 else high - low
    if (tail - median) * _NORMAL <= _LIN_MARGIN * exponential * width:
        return False
    if low <= 0:
        return True
    normal = NormalDist().inv_cdf(1 - middle)
    log_width = min(math.log(high / low), 2 * _LOG_SKEW * math.log(median / low))
    return math.log(tail / median) * _NORMAL > _LOG_MARGIN * normal * log_width


def _weighted_quantiles(
    values: NDArray[np.int64], weight: NDArray[np.float64]
) -> tuple[float, float, float]:
    order = np.argsort(values, kind="stable")
    summed = np.cumsum(weight[order])
    places = np.searchsorted(summed, np.array(QUARTERS) * summed[-1])
    low, median, high = values[order][np.minimum(places, len(values) - 1)].tolist()
    return float(low), float(median), float(high)


CLOSE = 0.1  # of two explanations the more specific is named, if it is that close
DEPENDENCIES: Final = frozenset(
    {
        Stage.NETWORK, Stage.RETRIEVE, Stage.CACHE, Stage.DATABASE, Stage.REMOTE_MODEL,
        Stage.TOOL, Stage.RETRY,
    }
)  # fmt: skip
_TOKENS: Final = ("input_tokens", "output_tokens", "cached_input_tokens")
_CROWDS: Final = (
    "queue_depth", "concurrency", "batch_size", "preemptions", "engine_waiting_requests",
    "engine_running_requests", "engine_batch_size", "engine_preemptions",
)  # fmt: skip
_INSTANCES: Final = frozenset(
    {"instance", "service.instance.id", "host.name", "host.id", "k8s.pod.name", "k8s.node.name"}
)
_VERSIONS: Final = frozenset({"version", "service.version"})
_CONSEQUENCES: Final = frozenset(  # of being slow
    {"status", "finish_reason", "error.type", "http.response.status_code", "http.status_code"}
)
_BINS = 32
_TAIL_BINS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A cause, how much of the tail it explains, and the rows that show it."""

    cause: Cause
    ratio: float
    rows: Mask


class _Case:
    """The groups, stages and traits that explanations are made of."""

    def __init__(
        self, groups: Groups, stages: Sequence[StageExcess], found: Sequence[Trait]
    ) -> None:
        self.groups = groups
        self.excess_ns = sum(stage.excess_ns for stage in stages)
        self.stages = {stage.stage: stage for stage in stages}
        self.grown = stages[0]
        self.found = found

    def of_trait(
        self, kind: CauseKind | None, trait: Trait, ratio: float | None = None
    ) -> Explanation:
        """A trait as the cause, and the stage that it makes longer; None: of the stage's kind."""
        share = trait.apart.attributable_ratio if ratio is None else ratio
        stage = self._longer_with(trait) if share >= MOSTLY else self.grown.stage
        cause = Cause(kind=kind or _kind_of(stage), stage=stage, trait=trait.apart)
        return Explanation(cause=cause, ratio=share, rows=trait.rows() & self._is_long(stage))

    def _longer_with(self, trait: Trait) -> Stage:
        """The stage in which requests with a trait, slow or not, are longer than others by most.

        A tail may have two causes: what those of one share says nothing about the other's stage.
        """
        having = trait.rows()
        if having.all():
            return self.grown.stage

        def longer_ns(stage: Stage) -> float:
            lengths_ns = self._lengths_ns(stage)
            return self.groups.mean(lengths_ns, having) - self.groups.mean(lengths_ns, ~having)

        return max(self.stages, key=longer_ns)

    def of_stage(self, kind: CauseKind, stage: Stage, trait: Trait | None = None) -> Explanation:
        """A stage as the cause, if its excess is more than its usual spread."""
        found = self.stages.get(stage)
        unusual = (
            found is not None
            and (found.low_ns or 0.0) > 0
            and found.excess_ns >= MOSTLY * self.excess_ns
            and is_unusual(self._lengths_ns(stage), self.groups)
        )
        is_long = self._is_long(stage)
        return Explanation(
            cause=Cause(kind=kind, stage=stage, trait=trait.apart if trait else None),
            ratio=found.excess_ns / self.excess_ns if found and unusual else 0.0,
            rows=is_long & trait.rows() if trait else is_long,
        )

    def _lengths_ns(self, stage: Stage) -> NDArray[np.int64]:
        return self.groups.columns.stages_ns[:, STAGES.index(stage)]

    def _is_long(self, stage: Stage) -> Mask:
        """Tell which requests are in a stage for as long as half of the tail."""
        lengths_ns = self._lengths_ns(stage)
        return lengths_ns >= self.groups.median(lengths_ns, self.groups.tail)

    def trait(self, keys: Sequence[str]) -> Trait | None:
        """The trait with one of these keys that sets the tail apart most."""
        return next((one for one in self.found if one.apart.key in keys), None)


def explanation(
    groups: Groups, stages: Sequence[StageExcess], found: Sequence[Trait]
) -> Explanation | None:
    """Find what explains at least half of the tail.

    Args:
        stages: What they spend their time in, the greatest excess first.
        found: What sets them apart, the greatest difference first.

    Returns:
        Of all that explain about as much, the first in the order of `_explanations`; a stage
        that merely grew comes last. None: nothing explains that much.
    """
    if not stages or stages[0].excess_ns <= 0:
        return None
    case = _Case(groups, stages, found)
    known = [one for one in _explanations(case) if one.ratio >= MOSTLY]
    if known:
        best = max(one.ratio for one in known)
        return next(one for one in known if one.ratio >= best - CLOSE)
    stage = case.grown.stage
    last = case.of_stage(_kind_of(stage), stage)
    return last if last.ratio >= MOSTLY else None


def _explanations(case: _Case) -> Iterator[Explanation]:
    """Every explanation but a stage alone, the most specific first."""
    yield from (
        case.of_trait(CauseKind.COLD_START, one)
        for one in case.found
        if one.apart.key == COLD_START
    )
    yield case.of_stage(CauseKind.COLD_START, Stage.LOAD)
    yield case.of_stage(CauseKind.RUNTIME, Stage.RUNTIME, case.trait(("instance",)))
    yield from _by_number(case, CauseKind.INPUT, _TOKENS)
    releases = [one.rows() for one in case.found if one.apart.key in _VERSIONS]
    yield from (
        case.of_trait(CauseKind.INSTANCE, one)
        for one in case.found
        if one.apart.key in _INSTANCES
        and not any(np.array_equal(one.rows(), rows) for rows in releases)  # it is new, not bad
    )
    yield case.of_stage(CauseKind.WAITING, Stage.QUEUE, case.trait(_CROWDS))
    plain = {*_TOKENS, *_CROWDS, *_INSTANCES, *_CONSEQUENCES, COLD_START}
    yield from (case.of_trait(None, one) for one in case.found if one.apart.key not in plain)
    stage = case.grown.stage
    if stage not in DEPENDENCIES and not case.of_stage(CauseKind.STAGE, stage).ratio:
        yield from _by_number(case, CauseKind.WAITING, _CROWDS)


def _by_number(case: _Case, kind: CauseKind, keys: Sequence[str]) -> Iterator[Explanation]:
    """The numbers that set the tail apart, by how much of the excess they predict."""
    by_key = {one.apart.key: one for one in case.found if one.apart.key in keys}
    ratios = {key: predicted_ratio(case.groups, key) for key in by_key}
    for key in sorted(ratios, key=ratios.__getitem__, reverse=True):
        yield case.of_trait(kind, by_key[key], ratios[key])


def predicted_ratio(groups: Groups, key: str) -> float:
    """The share of the excess that a number alone predicts.

    Each request is given the mean duration of all requests of the cohort with about its number.
    That the slowest ones have more of everything then explains little: of requests that a
    dependency kept waiting, those with long answers are in the tail.
    """
    numbers = groups.columns.numbers(key)
    known, value = numbers.known, numbers.value
    duration_ns = groups.columns.duration_ns.astype(np.float64)
    # The tail's own numbers too: it may lie in what is one bin of all.
    edges = [
        np.quantile(value[which], np.arange(1, bins) / bins)
        for which, bins in ((known, _BINS), (known & groups.tail, _TAIL_BINS))
        if which.any()
    ]
    bounds = np.unique(np.concatenate(edges))
    place = np.where(known, np.searchsorted(bounds, value, side="right"), len(bounds) + 1)
    weights = np.bincount(place, groups.weight)
    sums = np.bincount(place, groups.weight * duration_ns)
    predicted: NDArray[np.float64] = (sums / np.maximum(weights, 1e-9))[place]
    tail, usual = groups.tail, groups.reference
    excess_ns = groups.mean(duration_ns, tail) - groups.mean(duration_ns, usual)
    return (groups.mean(predicted, tail) - groups.mean(predicted, usual)) / excess_ns


def _kind_of(stage: Stage) -> CauseKind:
    """The kind of cause that an excess in a stage is, where nothing else is known."""
    kinds = {
        Stage.QUEUE: CauseKind.WAITING,
        Stage.RUNTIME: CauseKind.RUNTIME,
        Stage.LOAD: CauseKind.COLD_START,
    }
    return CauseKind.DEPENDENCY if stage in DEPENDENCIES else kinds.get(stage, CauseKind.STAGE)
