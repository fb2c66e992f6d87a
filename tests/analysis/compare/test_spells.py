"""Slow spells of a side are found, named and left out of a comparison; what is usual is not."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from latencytrace.analysis.compare.comparison import Comparison, compare
from latencytrace.analysis.compare.shifts import is_steady
from latencytrace.analysis.compare.spells import Spell, spells
from latencytrace.analysis.compare.verdict import Verdict
from latencytrace.model import Stage
from latencytrace.model.cohorts.request_columns import RequestColumns
from tests.support.simulation.cohorts import System, cohort, slower, with_incident

USUAL = System()
REQUESTS = 4_000


def usual(seed: int, system: System = USUAL, requests: int = REQUESTS) -> RequestColumns:
    return cohort(np.random.default_rng(seed), system, requests)


def hit(seed: int, **incident: float) -> RequestColumns:
    random = np.random.default_rng(seed)
    return with_incident(random, cohort(random, USUAL, REQUESTS), **incident)


def replaced(side: RequestColumns, stages_ns: NDArray[np.int64]) -> RequestColumns:
    return replace(side, stages_ns=stages_ns, duration_ns=stages_ns.sum(axis=1))


def with_times(side: RequestColumns, times: NDArray[np.float64]) -> RequestColumns:
    """The same requests, each so many times as slow."""
    return replaced(side, (side.stages_ns * times[:, None]).astype(np.int64))


def found(side: RequestColumns) -> tuple[Spell, ...]:
    return spells(side)[0]


@pytest.mark.parametrize(
    "incident",
    [
        {},
        {"hit_ratio": 0.2},
        {"end_ratio": 0.42, "extra_ms": 300},
        {"end_ratio": 1, "begin_ratio": 0.7},
    ],
    ids=["all", "a fifth of the requests", "short", "it goes on"],
)
def test_an_incident_is_named_and_left_out(incident: dict[str, float]) -> None:
    begin, end = incident.get("begin_ratio", 0.4), incident.get("end_ratio", 0.55)
    for seed in range(10):
        side = hit(seed, **incident)
        (spell,), left = spells(side)

        first, last = int(begin * REQUESTS), int(end * REQUESTS) - 1
        assert spell.stage is Stage.QUEUE
        assert spell.start_ns <= side.start_ns[first]
        assert spell.end_ns >= side.start_ns[last]
        assert spell.requests == REQUESTS - len(left) < (end - begin) * REQUESTS + 130
        assert spell.mean_ns > 1.2 * spell.usual_ns
        assert not np.isin(np.arange(first, last), left).any()


@pytest.mark.parametrize("requests", [1_280, 2_560, 6_400])
def test_a_cold_start_is_a_spell(requests: int) -> None:
    times = np.ones(requests)
    times[: requests // min(128, requests // 20)] = 10
    for seed in range(10):
        (spell,) = found(with_times(usual(seed, requests=requests), times))
        assert spell.start_ns == usual(seed, requests=requests).start_ns[0]


@pytest.mark.parametrize("system", [USUAL, System(likeness=0.9)], ids=["independent", "alike 0.9"])
def test_chance_is_no_spell(system: System) -> None:
    assert not any(found(usual(seed, system)) for seed in range(20))


@pytest.mark.parametrize("waves", [1, 2, 3])
def test_a_rhythm_is_no_spell(waves: int) -> None:
    times = 1 + 0.4 * np.sin(np.linspace(0, 2 * np.pi * waves, REQUESTS))
    assert not any(found(with_times(usual(seed), times)) for seed in range(10))


def test_what_comes_again_and_again_is_what_the_side_is_like() -> None:
    times = np.ones(REQUESTS)
    for begin in range(200, REQUESTS, 800):
        times[begin : begin + 200] = 4
    assert not found(with_times(usual(2), times))


def test_an_incident_of_the_new_side_is_no_regression_of_it() -> None:
    for seed in range(5):
        for share in (1.0, 0.2):
            seen = compared(usual(seed), hit(seed + 100, hit_ratio=share), at_least_ratio=0)

            assert seen.verdict is not Verdict.REGRESSION
            assert [len(side) for side in seen.spells] == [0, 1]
            assert seen.shifts


def test_where_one_side_lacks_requests_no_spell_of_the_other_is_named() -> None:
    few = usual(1, requests=20)

    assert compared(few, hit(2)).spells == ((), ())


def test_a_regression_is_found_beside_an_incident() -> None:
    random = np.random.default_rng(8)
    a = cohort(random, USUAL, 8_000)
    b = with_incident(random, cohort(random, slower(USUAL, 1.05), 8_000))

    seen = compared(a, b)

    assert seen.verdict is Verdict.REGRESSION
    median = next(shift for shift in seen.shifts if shift.level == 0.5)
    assert 0.02 * median.a_ns < median.shift_ns < 0.08 * median.a_ns


def test_a_stage_that_comes_and_goes_slowly_is_not_tested() -> None:
    a, b = usual(4), usual(5)
    stages_ns = b.stages_ns.copy()
    place = list(Stage).index(Stage.QUEUE)
    stages_ns[:, place] = 40_000_000 * (1 + np.sin(np.linspace(0, 9, REQUESTS)))
    assert not is_steady(stages_ns[:, place])

    seen = compared(a, replaced(b, stages_ns))

    queue = next(one for one in seen.stages if one.stage is Stage.QUEUE)
    assert {shift.p_value for shift in queue.shifts} == {None}
    assert {shift.low_ns for shift in queue.shifts} == {None}


def compared(a: RequestColumns, b: RequestColumns, at_least_ratio: float = 0.03) -> Comparison:
    return compare(a, b, at_least_ratio=at_least_ratio)
