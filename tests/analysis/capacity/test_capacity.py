"""Latency against load, on queues whose capacity is known."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from latencytrace.analysis.capacity.capacity import (
    LEAST_REQUESTS,
    Capacity,
    capacity,
    instances_at_once,
)
from latencytrace.analysis.capacity.limits import Limit
from latencytrace.model import Measure, Stage
from latencytrace.model.cohorts.request_columns import RequestColumns, Words
from tests.support.simulation.queues import Station, arrivals, served, times_of

CLIMBING = (0.3, 0.6, 0.8, 0.95, 1.1)  # of what the stations can do
DECODE = Station(stage=Stage.DECODE, servers=8, mean_ms=100)


def traffic(
    stations: Sequence[Station],
    loads: Sequence[float] = CLIMBING,
    *,
    requests: int = 10_000,
    seed: int = 1,
) -> RequestColumns:
    """As many requests at each load, one after the other."""
    most_per_s = min(station.most_per_s for station in stations)
    each = requests / len(loads)
    rates = [(load * most_per_s, each / (load * most_per_s)) for load in loads]
    random = np.random.default_rng(seed)
    return served(random, arrivals(random, rates), stations)


def found(columns: RequestColumns, *limits: Limit) -> Capacity:
    return capacity(times_of(columns), columns, limits)


@pytest.mark.parametrize("servers", [1, 4, 8, 32])
def test_the_knee_of_a_queue_is_at_its_servers(servers: int) -> None:
    station = replace(DECODE, servers=servers)

    knee = found(traffic([station])).knee

    assert knee is not None
    assert knee.low <= servers <= knee.high
    assert knee.served_per_second == pytest.approx(station.most_per_s, rel=0.05)
    assert knee.low_per_second < knee.served_per_second < knee.high_per_second


@pytest.mark.parametrize("instances", [1, 4])
def test_a_rate_asks_for_as_many_replicas_as_it_is_times_the_knee_of_one(instances: int) -> None:
    columns = traffic([DECODE])
    each = DECODE.most_per_s / instances
    number = np.arange(len(columns)) % instances
    named = Words(names=[f"pod-{one}" for one in range(instances)], number=number.astype(np.int32))
    columns = replace(columns, instance=named)

    answer = capacity(times_of(columns), columns, (), rate_per_s=10.5 * each).replicas

    assert answer is not None
    assert answer.instances == pytest.approx(instances, rel=0.01)
    assert answer.each_per_second == pytest.approx(each, rel=0.05)
    assert answer.low <= 11 <= answer.high
    assert answer.low <= answer.count <= answer.high


def test_pods_that_replaced_each_other_are_one_at_a_time() -> None:
    columns = traffic([DECODE])
    half = (np.arange(len(columns)) >= len(columns) // 2).astype(np.int32)
    columns = replace(columns, instance=Words(names=["old", "new"], number=half))

    assert instances_at_once(columns) == pytest.approx(1, abs=0.01)


def test_without_a_rate_replicas_are_those_for_the_rate_that_came() -> None:
    answer = found(traffic([DECODE], (0.3, 0.9, 1.1)))

    assert answer.replicas is not None
    assert answer.replicas.requests_per_second == answer.requests_per_second
    assert found(traffic([replace(DECODE, servers=1_000)], (0.01, 0.02))).replicas is None


def test_no_knee_is_found_where_nobody_waits() -> None:
    enough = replace(DECODE, servers=1_000)

    for seed in range(5):
        assert found(traffic([enough], (0.01, 0.02, 0.03), seed=seed)).knee is None


def test_the_first_stage_to_grow_is_that_of_the_station_that_fills_up() -> None:
    search = Station(stage=Stage.RETRIEVE, servers=4, mean_ms=40, waits_as=Stage.RETRIEVE)
    decode = replace(DECODE, servers=16)

    growth = found(traffic([search, decode])).growth

    assert growth is not None
    assert growth.first_stage is Stage.RETRIEVE
    assert growth.stages[0].stage is Stage.RETRIEVE
    assert growth.stages[0].low_ns > 0
    steady = next(one for one in growth.stages if one.stage is Stage.DECODE)
    assert steady.low_ns < 0 < steady.high_ns


def test_growths_add_up_to_that_of_the_duration() -> None:
    columns = traffic([DECODE])

    growth = found(columns).growth

    assert growth is not None
    assert {one.stage for one in growth.stages} == {Stage.QUEUE, Stage.DECODE}
    assert growth.first_stage is Stage.QUEUE
    assert growth.calm_to < 8 < growth.crowded_from


def test_goodput_is_what_meets_the_limit_and_best_before_requests_wait_too_long() -> None:
    columns = traffic([DECODE], (0.3, 0.6, 0.9, 1.3))
    limit = Limit(measure=Measure.DURATION, at_most_ns=300_000_000)

    answer = found(columns, limit)

    assert answer.goodput is not None
    ends = int(np.quantile(columns.duration_ns, 0.99))  # that are left out
    first_ns, last_ns = columns.start_ns[0] + ends, columns.start_ns[-1] - ends
    counted = (columns.start_ns >= first_ns) & (columns.start_ns < last_ns)
    assert answer.goodput.good_ratio == pytest.approx(
        (columns.duration_ns <= 300_000_000)[counted].mean(), abs=0.001
    )
    at = answer.goodput.best_concurrency
    best = next(level for level in answer.levels if level.concurrency == at)
    assert best.good_per_second == answer.goodput.best_per_second
    worst = answer.levels[-1]
    assert worst.served_per_second == pytest.approx(DECODE.most_per_s, rel=0.1)
    assert worst.good_per_second is not None
    assert worst.good_per_second < 0.5 * best.served_per_second
    assert best.concurrency_to < worst.concurrency


def test_a_limit_of_another_route_is_nobodys() -> None:
    columns = traffic([DECODE])
    other = Limit(measure=Measure.DURATION, at_most_ns=1, route="POST /other")
    own = replace(other, route="POST /chat")

    assert found(columns, other).goodput is None
    assert found(columns, own).goodput is not None
    assert found(columns).goodput is None


def test_what_fails_is_under_way_and_not_served() -> None:
    columns = traffic([DECODE])
    failed = np.arange(len(columns)) % 4 == 0
    some = replace(columns, status=Words(names=("ok", "error"), number=failed.astype(np.int32)))

    whole, part = found(columns), found(some)

    assert part.concurrency == pytest.approx(whole.concurrency)
    assert sum(level.served for level in part.levels) == pytest.approx(
        0.75 * sum(level.served for level in whole.levels), rel=0.05
    )
    assert part.knee is not None
    assert part.knee.served_per_second == pytest.approx(0.75 * DECODE.most_per_s, rel=0.05)


def test_a_share_of_the_requests_says_about_the_same() -> None:
    columns = traffic([DECODE])
    part = columns.taken(np.arange(0, len(columns), 5))

    whole, answer = found(columns), capacity(times_of(columns), part)

    assert answer.knee == whole.knee
    assert answer.growth is not None
    assert answer.growth.first_stage is Stage.QUEUE


def test_time_at_all_levels_and_what_was_served_add_up() -> None:
    columns = traffic([DECODE])

    answer = found(columns)

    idle = 1 - sum(level.time_share_ratio for level in answer.levels)
    assert 0 <= idle < 0.05
    served_per_s = sum(level.served for level in answer.levels) / (answer.counted_ns / 1e9)
    assert answer.requests_per_second == pytest.approx(served_per_s, rel=0.05)


def test_too_few_requests_say_how_many_it_takes() -> None:
    answer = found(traffic([DECODE]).taken(np.arange(LEAST_REQUESTS - 1)))

    assert answer.needed_requests == LEAST_REQUESTS
    assert answer.levels == ()
    assert answer.knee is None
