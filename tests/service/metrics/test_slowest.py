"""The slowest hundredth of requests, and where their time goes."""

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from latencytrace.model import Stage
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.metrics.slowest import EPOCH_S, LEAST, SlowestRequests
from latencytrace.service.metrics.telemetry import Telemetry
from tests.support.builders.made_requests import made_request

MS = 1_000_000
COHORT = ("rag", "POST /chat", "")
LABELS = ("service", "route", "model")


def made() -> tuple[SlowestRequests, CollectorRegistry]:
    registry = CollectorRegistry()
    return SlowestRequests(LABELS, registry), registry


def counted(slowest: SlowestRequests, durations_ms: list[float], at_s: float = 0) -> list[bool]:
    durations_ns = np.array(durations_ms) * MS
    found: list[bool] = slowest.among(COHORT, durations_ns.astype(np.int64), at_s).tolist()
    return found


def test_nobody_is_slow_before_enough_are_known() -> None:
    slowest, _ = made()

    assert not any(counted(slowest, [10.0] * (LEAST - 1)))
    assert counted(slowest, [1000.0]) == [False]
    assert counted(slowest, [1000.0, 10.0]) == [True, False]


@pytest.mark.parametrize("seed", range(5))
def test_about_a_hundredth_of_steady_requests_is_slow(seed: int) -> None:
    slowest, _ = made()
    lengths_ms = np.random.default_rng(seed).lognormal(3, 0.7, 40_000)
    found = [
        is_slow
        for place in range(0, 40_000, 500)
        for is_slow in counted(slowest, lengths_ms[place : place + 500].tolist())
    ][2_000:]
    slow_ms = lengths_ms[2_000:][np.array(found)]

    assert 0.005 <= np.mean(found) <= 0.012
    assert slow_ms.min() >= np.quantile(lengths_ms, 0.985)
    assert np.mean(lengths_ms[2_000:][~np.array(found)] > np.quantile(lengths_ms, 0.997)) == 0


def test_what_is_usual_follows_the_requests_of_the_last_minutes() -> None:
    slowest, _ = made()
    counted(slowest, [10.0] * 1000)
    first = counted(slowest, [50.0] * 1000)
    second = counted(slowest, [50.0] * 1000, EPOCH_S)
    third = counted(slowest, [50.0] * 1000, 2 * EPOCH_S)

    assert all(first)
    assert not any(second)
    assert not any(third)
    assert not any(counted(slowest, [10.0] * 1000, 3 * EPOCH_S))
    assert not any(counted(slowest, [10.0], 9 * EPOCH_S))


def test_their_stages_add_up_to_their_durations() -> None:
    telemetry = Telemetry()
    quick = made_request(stages={Stage.RETRIEVE: 5 * MS, Stage.DECODE: 20 * MS})
    slow = made_request(stages={Stage.RETRIEVE: 900 * MS, Stage.DECODE: 20 * MS})
    telemetry.counted.count(LedgerTable.of([quick] * 1000))
    telemetry.counted.count(LedgerTable.of([*[quick] * 200, slow, slow]))
    requests, stages = telemetry.counted.slowest.collect()
    of_stage = {one.labels["stage"]: one.value for one in stages.samples}

    assert [one.value for one in requests.samples] == [2]
    assert of_stage == {"retrieve": 1.8, "decode": 0.04}


def test_a_cohort_that_is_forgotten_has_no_series() -> None:
    slowest, registry = made()
    counted(slowest, [10.0] * 1000)
    counted(slowest, [1000.0])
    slowest.add(COHORT, {"retrieve": 10 * MS})
    before = len(list(slowest.collect())[1].samples)
    slowest.forget(COHORT)

    assert before == 1
    assert [one.samples for one in slowest.collect()] == [[], []]
    assert registry.get_sample_value("latencytrace_slowest_requests_total") is None


def test_a_time_that_no_array_holds_is_counted_all_the_same() -> None:
    telemetry = Telemetry()
    odd = made_request(stages={Stage.DECODE: (1 << 64) - 2})

    telemetry.counted.count(LedgerTable.of([odd] * (LEAST + 1)))

    assert odd.duration_ns > 1 << 63
    counted_ones = [
        sample.value
        for metric in telemetry.registry.collect()
        for sample in metric.samples
        if sample.name == "latencytrace_requests_total"
    ]
    assert sum(counted_ones) == LEAST + 1
