"""Ledgers beside the truth of a simulated system."""

from dataclasses import replace

import pytest

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import RepairKind, Request, Stage
from tests.support.simulation.simulator import (
    EDGE,
    GPU,
    MS,
    VECTORS,
    Aside,
    SimulatedRequest,
    simulate,
)
from tests.support.simulation.ways import WAYS, wrong_ratios

pytestmark = pytest.mark.long

REQUESTS = 200
SKEWS_NS = {
    "clocks that agree": {},
    "milliseconds apart": {GPU: 37 * MS, VECTORS: -12 * MS},
    "minutes apart": {GPU: -90_000 * MS, VECTORS: 200_000 * MS},
    "a little apart": {GPU: 2 * MS, VECTORS: 1 * MS},
}


def outermost(simulated: SimulatedRequest) -> Request:
    return requests_of(simulated.spans, {})[0]


def p99_error_ratios(served: list[SimulatedRequest]) -> dict[Stage, float]:
    """By stage, of end-to-end time."""
    errors: dict[Stage, list[float]] = {stage: [] for stage in Stage}
    for simulated in served:
        found = outermost(simulated)
        for stage in Stage:
            off_ns = found.ledger.get(stage, 0) - simulated.truth.get(stage, 0)
            errors[stage].append(abs(off_ns) / found.duration_ns)
    return {
        stage: sorted(of_stage)[len(of_stage) * 99 // 100] for stage, of_stage in errors.items()
    }


@pytest.mark.parametrize("skew_ns", SKEWS_NS.values(), ids=SKEWS_NS)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_stage_is_true_within_one_per_cent_of_end_to_end(
    seed: int, skew_ns: dict[str, int]
) -> None:
    served = simulate(seed, REQUESTS, skew_ns)

    errors = p99_error_ratios(served)

    assert {stage: error for stage, error in errors.items() if error > 0.01} == {}


def test_clocks_taken_at_their_word_are_far_from_the_truth() -> None:
    served = simulate(1, REQUESTS, SKEWS_NS["milliseconds apart"])
    for simulated in served:
        simulated.spans = [replace(span, host=EDGE) for span in simulated.spans]

    errors = p99_error_ratios(served)

    assert max(errors.values()) > 0.05


@pytest.mark.parametrize("skew_ns", SKEWS_NS.values(), ids=SKEWS_NS)
@pytest.mark.parametrize("aside", WAYS.values(), ids=WAYS)
def test_whatever_runs_beside_at_most_a_hundredth_is_in_a_wrong_stage(
    aside: Aside, skew_ns: dict[str, int]
) -> None:
    served = simulate(1, REQUESTS // 2, skew_ns, aside)

    wrong = wrong_ratios((simulated, dict(outermost(simulated).ledger)) for simulated in served)

    assert wrong[len(wrong) * 95 // 100] <= 0.01


def test_each_moved_clock_is_told() -> None:
    (simulated,) = simulate(1, 1, SKEWS_NS["minutes apart"])

    found = outermost(simulated)

    assert {repair.kind for repair in found.repairs} == {RepairKind.CLOCK_SKEW}


def test_the_simulated_system_is_busy_enough_to_tell() -> None:
    served = simulate(1, REQUESTS, {})

    shares = {
        stage: sum(one.truth.get(stage, 0) for one in served)
        / sum(sum(one.truth.values()) for one in served)
        for stage in (Stage.NETWORK, Stage.QUEUE, Stage.RETRIEVE, Stage.PREFILL, Stage.DECODE,
                      Stage.RESPOND)
    }  # fmt: skip

    assert min(shares.values()) > 0.005
