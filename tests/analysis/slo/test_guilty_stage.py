"""Which stage is named as guilty."""

import pytest

from latencytrace.analysis.slo.guilty_stage import guilty_stage, measured_ledger
from latencytrace.model import Measure, Stage
from tests.support.builders.made_objectives import made_objective
from tests.support.builders.made_requests import made_request

USUAL = {Stage.RETRIEVE: 10, Stage.DECODE: 100}


def test_the_stage_that_grew_most_is_guilty() -> None:
    found = guilty_stage([{Stage.RETRIEVE: 40, Stage.DECODE: 110}], [USUAL])

    assert found is not None
    assert (found.stage, found.excess_ns) == (Stage.RETRIEVE, 30)
    assert found.share_ratio == pytest.approx(0.75)


def test_a_stage_that_shrank_excuses_no_other() -> None:
    found = guilty_stage([{Stage.RETRIEVE: 40, Stage.DECODE: 1}], [USUAL])

    assert found is not None
    assert found.share_ratio == 1


@pytest.mark.parametrize(
    ("slow", "good"), [([], [USUAL]), ([USUAL], []), ([USUAL], [USUAL])], ids=["a", "b", "c"]
)
def test_without_anything_to_compare_nobody_is_guilty(
    slow: list[dict[Stage, int]], good: list[dict[Stage, int]]
) -> None:
    assert guilty_stage(slow, good) is None


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (Measure.DURATION, {Stage.RETRIEVE: 10, Stage.PREFILL: 50, Stage.DECODE: 100}),
        (Measure.TIME_TO_FIRST_TOKEN, {Stage.RETRIEVE: 10, Stage.PREFILL: 50, Stage.DECODE: 20}),
        (Measure.TIME_PER_OUTPUT_TOKEN, {Stage.DECODE: 80}),
    ],
)
def test_only_what_is_measured_can_be_guilty(measure: Measure, expected: dict[Stage, int]) -> None:
    request = made_request(
        stages={Stage.RETRIEVE: 10, Stage.PREFILL: 50, Stage.DECODE: 100},
        time_to_first_token_ns=80,
    )

    assert measured_ledger(made_objective(measure=measure), request) == expected
