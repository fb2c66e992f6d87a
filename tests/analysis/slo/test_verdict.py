"""Which requests keep a promise."""

from dataclasses import replace

import pytest

from latencytrace.analysis.slo.verdict import is_good
from latencytrace.model import Measure, RequestStatus, Stage
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.made_requests import made_request

FIRST_TOKEN = made_objective(measure=Measure.TIME_TO_FIRST_TOKEN)
PER_TOKEN = made_objective(measure=Measure.TIME_PER_OUTPUT_TOKEN)
RETRIEVE = made_objective(measure=Measure.STAGE, stage=Stage.RETRIEVE)
FAILED = [RequestStatus.ERROR, RequestStatus.TIMEOUT, RequestStatus.REJECTED]


@pytest.mark.parametrize(
    ("duration_ns", "good"),
    [(2 * SECOND_NS - 1, True), (2 * SECOND_NS, True), (2 * SECOND_NS + 1, False)],
    ids=["below", "exactly", "above"],
)
def test_the_threshold_itself_is_good(duration_ns: int, *, good: bool) -> None:
    assert is_good(made_objective(), made_request(duration_ns)) is good


@pytest.mark.parametrize("status", FAILED)
def test_what_fails_is_bad_however_fast(status: RequestStatus) -> None:
    assert is_good(made_objective(), made_request(1, status=status)) is False
    assert is_good(FIRST_TOKEN, made_request(1, status=status)) is False


def test_a_client_that_leaves_in_time_is_not_counted() -> None:
    left = made_request(SECOND_NS, status=RequestStatus.CANCELLED)

    assert is_good(made_objective(), left) is None
    assert is_good(FIRST_TOKEN, left) is None
    assert is_good(PER_TOKEN, left) is None


def test_a_client_that_leaves_after_the_threshold_was_made_to_wait() -> None:
    left = made_request(3 * SECOND_NS, status=RequestStatus.CANCELLED)

    assert is_good(made_objective(), left) is False
    assert is_good(FIRST_TOKEN, left) is False


def test_a_client_that_leaves_after_its_first_token_had_it_in_time() -> None:
    left = made_request(
        3 * SECOND_NS, status=RequestStatus.CANCELLED, time_to_first_token_ns=SECOND_NS
    )

    assert is_good(FIRST_TOKEN, left) is True


def test_a_stage_that_may_have_been_cut_short_is_not_counted() -> None:
    short = made_request(stages={Stage.RETRIEVE: 1}, status=RequestStatus.CANCELLED)
    long = made_request(stages={Stage.RETRIEVE: 3 * SECOND_NS}, status=RequestStatus.CANCELLED)

    assert is_good(RETRIEVE, short) is None
    assert is_good(RETRIEVE, long) is False


def test_until_idle_counts_what_a_request_went_on_with() -> None:
    until_idle = made_objective(measure=Measure.UNTIL_IDLE)
    went_on = {Stage.RETRIEVE: SECOND_NS, Stage.UNATTRIBUTED: 1}

    assert is_good(until_idle, made_request(2 * SECOND_NS)) is True
    assert is_good(until_idle, made_request(SECOND_NS - 1, after=went_on)) is True
    assert is_good(until_idle, made_request(SECOND_NS, after=went_on)) is False


def test_a_client_that_left_says_nothing_of_work_that_ended_in_time() -> None:
    until_idle = made_objective(measure=Measure.UNTIL_IDLE)
    left = made_request(SECOND_NS, status=RequestStatus.CANCELLED)

    assert is_good(until_idle, left) is None
    assert is_good(until_idle, replace(left, after={Stage.RETRIEVE: 2 * SECOND_NS})) is False


def test_a_request_without_what_is_measured_is_not_counted() -> None:
    plain = made_request(3 * SECOND_NS)

    assert is_good(FIRST_TOKEN, plain) is None
    assert is_good(PER_TOKEN, plain) is None
    assert is_good(RETRIEVE, plain) is None


def test_a_failed_request_that_never_came_to_the_stage_says_nothing_about_it() -> None:
    assert is_good(RETRIEVE, made_request(1, status=RequestStatus.ERROR)) is None


def test_a_stage_is_judged_by_its_own_time() -> None:
    request = made_request(stages={Stage.RETRIEVE: SECOND_NS, Stage.DECODE: 9 * SECOND_NS})

    assert is_good(RETRIEVE, request) is True
    assert is_good(made_objective(), request) is False


@pytest.mark.parametrize(
    "other", [{"route": "GET /"}, {"service": "x"}, {"model": "y"}, {"version": "2"}]
)
def test_requests_of_another_cohort_are_not_counted(other: dict[str, str]) -> None:
    objective = made_objective(model="tiny", version="1.0")

    assert objective.counts(made_request())
    assert not objective.counts(made_request(1, None, **other))
