"""The numbers of a load: exact quantiles at each rate, and where the server's knee is."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from latencytrace.cli.load_test.answer import Shape
from latencytrace.cli.load_test.outcome import CUT_SHORT, NO_LIMITS, Limits, Outcome
from latencytrace.cli.load_test.record import LoadRecord, StepRecord

LEVELS = (0.50, 0.90, 0.95, 0.99)
ENDS_LEFT_OUT = 20  # one part in this many at either end, when rates are counted
KNEE_ACHIEVED_RATIO = 0.95
KNEE_LATENCY_FACTOR = 2.0
MOST_LATE_NS = 5_000_000
MOST_LATE_RATIO = 0.05  # of the median duration
MOST_CPU_RATIO = 0.8  # of one core; the generator has only one thread to time with


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Exact quantiles over all values, interpolated between neighbours as the service does."""

    mean: int
    p50: int
    p90: int
    p95: int
    p99: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSummary:
    """Measurements at one rate, its warm-up left out; None: unknown."""

    rate_per_s: float  # asked for
    offered_per_s: float | None  # what the arrivals came to
    achieved_per_s: float | None  # successful answers
    good_ratio: float | None  # of all requests: within all limits; None: there is none
    goodput_per_s: float | None  # of what was offered
    requests: int
    succeeded: int
    errors: dict[str, int]
    warm_up_requests: int
    in_flight_max: int
    held_back: int
    elapsed_ns: int
    duration_ns: Distribution | None
    time_to_first_byte_ns: Distribution | None
    time_to_first_token_ns: Distribution | None
    time_per_output_token_ns: Distribution | None
    inter_token_ns: Distribution | None
    output_tokens: int | None
    output_tokens_per_second: float | None
    shapes: dict[str, int]
    tokens_reported_by: dict[str, int]  # `usage`, or `events` that were counted
    late_ns: Distribution | None
    generator_cpu_ratio: float  # of one core

    @property
    def generator_kept_up(self) -> bool:
        """True if the times are the server's rather than the generator's."""
        if self.held_back or self.generator_cpu_ratio > MOST_CPU_RATIO:
            return False
        if self.late_ns is None or self.duration_ns is None:
            return True
        return self.late_ns.p99 <= max(MOST_LATE_NS, MOST_LATE_RATIO * self.duration_ns.p50)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """The rate up to which a server keeps up."""

    rate_per_s: float | None  # None: not even at the lowest
    broken_at_per_s: float | None  # None: it kept up at every rate
    rule: str | None  # which rule that rate broke, with its numbers


def summaries(record: LoadRecord) -> tuple[RateSummary, ...]:
    """One summary a rate, in the order in which they were run."""
    return tuple(summary(step, record.limits) for step in record.steps)


def summary(record: StepRecord, limits: Limits = NO_LIMITS) -> RateSummary:
    """The numbers of one step.

    Durations are those of successful requests and of timed-out ones, which
    count with how long they were waited for: without them a stalled server would seem
    fast. Failures that came at once count as errors only.
    """
    measured = [outcome for outcome in record.outcomes if not outcome.warm_up]
    succeeded = [outcome for outcome in measured if outcome.error is None]
    slow = [outcome for outcome in measured if outcome.error in CUT_SHORT]
    achieved_per_s = rate_of([outcome.end_ns for outcome in succeeded])
    tokens = [outcome.tokens for outcome in succeeded if outcome.tokens is not None]
    answers = [outcome.answer for outcome in succeeded if outcome.answer is not None]
    offered_per_s = rate_of([outcome.due_ns for outcome in measured])
    good_ratio = _good_ratio(measured, limits)
    return RateSummary(
        rate_per_s=record.step.rate_per_s,
        offered_per_s=offered_per_s,
        achieved_per_s=achieved_per_s,
        good_ratio=good_ratio,
        goodput_per_s=good_ratio and offered_per_s and good_ratio * offered_per_s,
        requests=len(measured),
        succeeded=len(succeeded),
        errors=_counts(outcome.error for outcome in measured if outcome.error is not None),
        warm_up_requests=len(record.outcomes) - len(measured),
        in_flight_max=record.in_flight_max,
        held_back=sum(outcome.held_back for outcome in measured),
        elapsed_ns=record.elapsed_ns,
        duration_ns=distribution(outcome.duration_ns for outcome in succeeded + slow),
        time_to_first_byte_ns=distribution(each.time_to_first_byte_ns for each in succeeded),
        time_to_first_token_ns=distribution(each.time_to_first_token_ns for each in succeeded),
        time_per_output_token_ns=distribution(each.time_per_output_token_ns for each in succeeded),
        inter_token_ns=distribution(gap for each in succeeded for gap in each.token_gaps_ns),
        output_tokens=sum(tokens) if tokens else None,
        output_tokens_per_second=_per_second(tokens, achieved_per_s),
        shapes=_counts(answer.shape for answer in answers),
        tokens_reported_by=_counts(
            "events" if answer.reported_tokens is None else "usage"
            for answer in answers
            if answer.tokens is not None
        ),
        late_ns=distribution(outcome.late_ns for outcome in measured),
        generator_cpu_ratio=record.cpu_ns / record.elapsed_ns if record.elapsed_ns else 0.0,
    )


def _good_ratio(measured: Sequence[Outcome], limits: Limits) -> float | None:
    """The share of requests that met all limits."""
    if not limits.are_set or not measured:
        return None
    return sum(map(limits.are_met, measured)) / len(measured)


def _per_second(tokens: Sequence[int], achieved_per_s: float | None) -> float | None:
    """Tokens of a mean answer times answers a second."""
    return sum(tokens) / len(tokens) * achieved_per_s if tokens and achieved_per_s else None


def _counts(names: Iterable[str]) -> dict[str, int]:
    return {str(name): number for name, number in Counter(names).most_common()}


def rate_of(times_ns: Iterable[int]) -> float | None:
    """Events a second: the middle 90 % of them over the time that they took.

    Counted alike for when requests were due and when their answers ended, so that a
    constant latency takes nothing from the achieved rate, and one straggler hardly any.
    """
    ordered = sorted(times_ns)
    left_out = len(ordered) // ENDS_LEFT_OUT
    middle = ordered[left_out : len(ordered) - left_out]
    if len(middle) < 2 or middle[0] == middle[-1]:  # noqa: PLR2004 - a stretch has two ends
        return None
    return (len(middle) - 1) * 1e9 / (middle[-1] - middle[0])


def distribution(values: Iterable[int | None]) -> Distribution | None:
    """The exact quantiles of those values that are known."""
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return None
    p50, p90, p95, p99 = (quantile(ordered, level) for level in LEVELS)
    return Distribution(
        mean=round(sum(ordered) / len(ordered)),
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
        max=ordered[-1],
    )


def quantile(ordered: Sequence[int], level: float) -> int:
    """The value at a level of an ascending, non-empty sequence.

    Source: Hyndman and Fan, "Sample Quantiles in Statistical Packages", type 7, which is
    ClickHouse's quantileExactInclusive.
    """
    position = level * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return round(ordered[below] + (ordered[above] - ordered[below]) * (position - below))


def knee(rates: Sequence[RateSummary]) -> Knee | None:
    """The highest rate up to which the server kept up; None with fewer than two rates.

    It keeps up as long as (1) it answers at least 95 % of the requests offered, as
    rates, and (2) p95 of the duration is below twice that of the lowest rate. Going up
    from the lowest rate, the first one that breaks a rule ends the search.
    """
    ordered = sorted((rate for rate in rates if rate.requests), key=lambda rate: rate.rate_per_s)
    if len(ordered) < 2:  # noqa: PLR2004 - a knee lies between two
        return None
    kept_up: float | None = None
    for rate in ordered:
        rule = _broken_rule(rate, ordered[0])
        if rule is not None:
            return Knee(rate_per_s=kept_up, broken_at_per_s=rate.rate_per_s, rule=rule)
        kept_up = rate.rate_per_s
    return Knee(rate_per_s=kept_up, broken_at_per_s=None, rule=None)


def _broken_rule(rate: RateSummary, lowest: RateSummary) -> str | None:
    offered, achieved = rate.offered_per_s, rate.achieved_per_s or 0.0
    if offered is not None and achieved < KNEE_ACHIEVED_RATIO * offered:
        return f"achieved {achieved / offered:.0%} of the rate offered, below 95 %"
    if rate.duration_ns is None or lowest.duration_ns is None:
        return None
    factor = rate.duration_ns.p95 / max(1, lowest.duration_ns.p95)
    if factor >= KNEE_LATENCY_FACTOR:
        return f"had a p95 {factor:.1f} times that of the lowest rate, not below 2"
    return None


def best_goodput(rates: Iterable[RateSummary]) -> RateSummary | None:
    """The rate at which most requests a second met all limits; None: there is no limit."""
    known = [rate for rate in rates if rate.goodput_per_s is not None]
    return max(known, key=lambda rate: rate.goodput_per_s or 0.0, default=None)


def slowest(record: LoadRecord) -> Outcome | None:
    """The traced request that took longest, warm-up left out."""
    traced = [
        outcome
        for step in record.steps
        for outcome in step.outcomes
        if outcome.trace_id is not None and outcome.error is None and not outcome.warm_up
    ]
    return max(traced, key=lambda outcome: outcome.duration_ns, default=None)


def shapes(rates: Iterable[RateSummary]) -> list[Shape]:
    """The shapes that the answers had, each once."""
    return [shape for shape in Shape if any(shape.value in rate.shapes for rate in rates)]
