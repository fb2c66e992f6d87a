"""The same requests, once all of them and once a share by weight: the answers agree."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from latencytrace.analysis.capacity.capacity import Capacity, capacity
from latencytrace.analysis.capacity.limits import Limit
from latencytrace.analysis.compare.comparison import Comparison, compare
from latencytrace.analysis.compare.verdict import Verdict
from latencytrace.analysis.tail.around import LEAST, around
from latencytrace.analysis.tail.groups import Selection, Split
from latencytrace.analysis.tail.neighbours import neighbours
from latencytrace.analysis.tail.tail import tail_of, tail_of_selection
from latencytrace.analysis.whatif import Replayed, back_test, forecast
from latencytrace.model import Measure, Stage
from latencytrace.model.cohorts.breakdown import CauseKind, Tail
from latencytrace.model.cohorts.request_columns import DurationBand, Durations, RequestColumns
from tests.analysis.tail.test_neighbours import Engine
from tests.support.simulation import cohorts, tails
from tests.support.simulation.queues import Station, arrivals, served, times_of
from tests.support.simulation.sampling import sampled
from tests.support.simulation.tails import INCIDENTS, durations_of

REQUESTS = 30_000
OF_INSTANCE = np.array([2, 5, 10, 4])  # one of so many is recorded
LIMIT = Limit(measure=Measure.DURATION, at_most_ns=300_000_000)


def tail(columns: RequestColumns, quantile: float = 0.97) -> Tail:
    split = Split.of(durations_of(columns), quantile)
    return tail_of(tails.read(columns, split, 1), split, quantile)


def by_instance(columns: RequestColumns) -> RequestColumns:
    return sampled(columns, OF_INSTANCE[columns.instance.number])


def by_tokens(columns: RequestColumns, seed: int) -> RequestColumns:
    """Long prompts are all recorded, one of eight short ones."""
    return sampled(columns, np.where(columns.input_tokens.value > 700, 1, 8), seed)


def assert_alike(part: Tail, whole: Tail) -> None:
    """Hold the numbers against each other, each by how sure it is."""
    assert part.requests == pytest.approx(whole.requests, rel=0.06)
    assert part.recorded_requests < whole.requests / 2
    assert part.tail_requests == pytest.approx(whole.tail_requests, rel=0.2)
    assert part.excess_ns == pytest.approx(whole.excess_ns, rel=0.25)
    stages = {one.stage: one for one in whole.stages}
    for one in part.stages:
        truth = stages[one.stage]
        assert tails.ends(one)[0] <= tails.ends(truth)[1]
        assert tails.ends(truth)[0] <= tails.ends(one)[1]


@pytest.mark.parametrize("kind", INCIDENTS)
def test_the_tail_of_a_share_has_the_same_cause(kind: CauseKind) -> None:
    columns = tails.cohort(31, kind, REQUESTS)

    whole, part = tail(columns), tail(by_instance(columns))

    assert whole.cause is not None
    assert part.cause is not None
    assert (part.cause.kind, part.cause.stage) == (kind, whole.cause.stage)
    assert_alike(part, whole)


def test_what_sets_a_tail_apart_has_the_shares_of_the_population() -> None:
    columns = tails.cohort(31, CauseKind.INSTANCE, REQUESTS)
    recorded = by_instance(columns)

    whole, part, by_row = (
        {(one.key, one.value): one for one in tail(each).attributes}
        for each in (columns, recorded, replace(recorded, weight=None))
    )

    (named,) = [one for one in whole if one[0] == "instance"]
    assert part[named].tail_share_ratio == pytest.approx(whole[named].tail_share_ratio, abs=0.1)
    assert part[named].reference_share_ratio == pytest.approx(
        whole[named].reference_share_ratio, abs=0.03
    )
    off = abs(by_row[named].reference_share_ratio - whole[named].reference_share_ratio)
    assert off > 0.05  # else the test shows nothing


def test_a_selection_of_a_share_is_counted_by_weight() -> None:
    columns = tails.cohort(31, CauseKind.DEPENDENCY, REQUESTS)
    box = Selection(
        at_least_ns=int(np.quantile(columns.duration_ns, 0.96)),
        at_most_ns=DurationBand().at_most_ns,
        since_ns=0,
        until_ns=DurationBand().at_most_ns,
    )

    def found(rows: RequestColumns) -> Tail:
        chosen = durations_of(rows.taken(np.flatnonzero(box.holds(rows))))
        split = Split.without_tail(durations_of(rows).without(chosen))
        return tail_of_selection(rows, split, box, chosen)

    whole, part = found(columns), found(by_instance(columns))

    assert part.cause is not None
    assert part.cause.kind is CauseKind.DEPENDENCY
    assert part.quantile == pytest.approx(0.96, abs=0.01)
    assert_alike(part, whole)


def test_few_that_stand_for_many_are_not_enough_for_a_cause() -> None:
    columns = tails.cohort(31, CauseKind.DEPENDENCY, 2_000)
    heavy = replace(columns, weight=np.where(np.arange(2_000) % 400 == 0, 1000, 1))

    assert tail(columns, 0.99).needed_requests is None
    found = tail(heavy, 0.99)
    assert found.cause is None
    assert found.needed_requests is not None
    assert found.needed_requests > 2 * found.requests > 2_000


def test_hours_that_stand_for_a_million_are_no_more_than_numbers_hold() -> None:
    columns = tails.cohort(31, CauseKind.DEPENDENCY, 2_000)
    hours = replace(
        columns, stages_ns=columns.stages_ns * 20_000, duration_ns=columns.duration_ns * 20_000
    )

    alone, heavy = tail(hours), tail(replace(hours, weight=np.full(2_000, 10**6)))

    assert heavy.stages
    for of_alone, of_heavy in zip(alone.stages, heavy.stages, strict=True):
        assert of_heavy.low_ns == pytest.approx(of_alone.low_ns)
        assert of_heavy.high_ns == pytest.approx(of_alone.high_ns)


def test_nothing_is_named_where_nothing_depends_on_anything() -> None:
    named = [
        bool(found.cause or found.attributes)
        for seed in range(20)
        for found in [tail(by_instance(tails.cohort(500 + seed, None, 12_000)))]
    ]

    assert sum(named) <= 3  # the level is one in twenty


def shift(found: Comparison, level: float) -> tuple[float, float, float]:
    (one,) = [one for one in found.shifts if one.level == level]
    assert one.low_ns is not None
    assert one.high_ns is not None
    return one.low_ns, one.shift_ns, one.high_ns


@pytest.mark.parametrize(
    ("b", "verdict"),
    [
        (cohorts.System(retrieve_ms=80), Verdict.REGRESSION),
        (cohorts.System(prompt=1_000), Verdict.NO_CHANGE),
    ],
)
def test_a_comparison_of_shares_is_that_of_the_populations(
    b: cohorts.System, verdict: Verdict
) -> None:
    random = np.random.default_rng(5)
    sides = [cohorts.cohort(random, one, REQUESTS) for one in (cohorts.System(), b)]
    shares = by_tokens(sides[0], 1), sampled(sides[1], np.full(REQUESTS, 3), 2)

    whole = compare(sides[0], sides[1], at_least_ratio=0.05)
    part = compare(*shares, at_least_ratio=0.05)

    assert whole.verdict is part.verdict is verdict
    assert part.matched_on == whole.matched_on
    for level in (0.5, 0.95):
        low, _, high = shift(part, level)
        at_low, truth, at_high = shift(whole, level)
        assert low - (at_high - at_low) <= truth <= high + (at_high - at_low)
        (of_whole,), (of_part,) = (
            [one.a_ns for one in each.shifts if one.level == level] for each in (whole, part)
        )
        assert of_part == pytest.approx(of_whole, rel=0.05)


@pytest.mark.long
def test_shares_recorded_otherwise_are_no_regression() -> None:
    wrong = 0
    for seed in range(12):
        random = np.random.default_rng([9, seed])
        a, b = (cohorts.cohort(random, cohorts.System(), 12_000) for _ in range(2))
        found = compare(by_tokens(a, seed), sampled(b, np.full(12_000, 4)), at_least_ratio=0.0)
        wrong += found.verdict in {Verdict.REGRESSION, Verdict.IMPROVEMENT}

    assert wrong <= 2  # the level is one in twenty


def test_a_comparison_asks_for_more_where_few_stand_for_many() -> None:
    random = np.random.default_rng(5)
    a, b = (cohorts.cohort(random, cohorts.System(), 200) for _ in range(2))
    heavy = replace(a, weight=np.where(np.arange(200) < 5, 1000, 1))

    found = compare(heavy, b)

    assert found.verdict is Verdict.NOT_ENOUGH_DATA
    assert found.needed_requests is not None
    assert found.needed_requests > heavy.weights().sum()


def test_a_forecast_of_a_share_is_that_of_the_population() -> None:
    system = cohorts.System(noise=0.02)
    columns = cohorts.cohort(np.random.default_rng(1), system, 20_000)
    part = by_tokens(columns, 1)

    def found(rows: RequestColumns) -> Sequence[float]:
        sample = [
            Replayed(duration_ns=ns, replayed_ns=0.8 * ns, weight=float(weight))
            for ns, weight in zip(rows.duration_ns.tolist(), rows.weights().tolist(), strict=True)
        ]
        return forecast(durations_of(rows), sample)

    assert found(part) == pytest.approx(found(columns), rel=0.05)
    assert found(replace(part, weight=None))[0] > 1.1 * found(columns)[0]
    error = back_test(part, Stage.RETRIEVE, 1.0)
    assert error is not None
    assert error < 0.05


def queue(servers: int, requests: int) -> RequestColumns:
    station = Station(stage=Stage.DECODE, servers=servers, mean_ms=100)
    rates = [
        (load * station.most_per_s, requests / 5 / (load * station.most_per_s))
        for load in (0.3, 0.6, 0.8, 0.95, 1.1)
    ]
    random = np.random.default_rng(1)
    return served(random, arrivals(random, rates), [station])


def alternating(columns: RequestColumns, *weights: int) -> NDArray[np.int64]:
    return np.resize(np.array(weights), len(columns))


def measured(columns: RequestColumns) -> Capacity:
    return capacity(times_of(columns), columns, [LIMIT])


def test_rates_and_goodput_of_a_share_are_those_of_the_population() -> None:
    columns = queue(8, 20_000)

    whole, part = measured(columns), measured(sampled(columns, alternating(columns, 2, 10)))

    assert part.requests == pytest.approx(whole.requests, rel=0.05)
    assert part.requests_per_second == pytest.approx(whole.requests_per_second, rel=0.05)
    assert part.concurrency == pytest.approx(whole.concurrency, rel=0.1)
    assert part.goodput is not None
    assert whole.goodput is not None
    assert part.goodput.good_ratio == pytest.approx(whole.goodput.good_ratio, abs=0.03)
    assert part.goodput.per_second == pytest.approx(whole.goodput.per_second, rel=0.07)


def test_numbers_at_once_that_a_share_cannot_tell_apart_are_one_level() -> None:
    columns = queue(8, 20_000)

    part = measured(sampled(columns, alternating(columns, 2, 10)))

    assert [one.concurrency for one in part.levels] == [1]
    assert (part.knee, part.growth, part.max_concurrency) == (None, None, None)


def test_the_knee_of_many_servers_is_found_by_a_share() -> None:
    columns = queue(300, 60_000)

    whole, part = measured(columns), measured(sampled(columns, alternating(columns, 1, 3)))

    assert whole.knee is not None
    assert part.knee is not None
    assert part.knee.low <= 300 <= part.knee.high
    assert part.knee.served_per_second == pytest.approx(whole.knee.served_per_second, rel=0.05)
    assert part.levels[1].concurrency >= 100
    assert part.growth is not None
    assert whole.growth is not None
    assert part.growth.first_stage is whole.growth.first_stage is Stage.QUEUE


def test_requests_around_a_quantile_are_counted_by_weight() -> None:
    columns = cohorts.cohort(np.random.default_rng(1), cohorts.System(), 20_000)

    whole, part = (around(durations_of(one), 0.9) for one in (columns, by_tokens(columns, 1)))

    assert whole is not None
    assert part is not None
    assert part.requests == pytest.approx(whole.requests, rel=0.1)
    assert part.band.at_least_ns == pytest.approx(whole.band.at_least_ns, rel=0.05)
    few = Durations(ns=np.arange(2 * LEAST), weight=np.where(np.arange(2 * LEAST) < 2, 1000, 1))
    assert around(few, 0.9) is None


def test_what_others_cost_is_a_mean_by_weight() -> None:
    engine = Engine()
    heavy, light, usual = engine.waits(40, 0.6), engine.waits(40, 0.05), engine.waits(60, 0.05)

    every = neighbours({**heavy, **light}, usual)
    found = neighbours({**heavy, **light}, usual, dict.fromkeys(light, 4))

    assert every is not None
    assert found is not None
    assert found.tail_requests == every.tail_requests == 80
    of_heavy, of_light = (
        np.mean([engine.true_ms[one] for one in each]) for each in (heavy, light)
    )
    truth_ns = 1e6 * (of_heavy + 4 * of_light) / 5
    assert found.tail_mean_ns == pytest.approx(truth_ns, rel=0.06)
    assert neighbours(heavy, usual, {next(iter(heavy)): 10_000}) is None
