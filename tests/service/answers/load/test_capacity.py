"""The answer to latency against load, of the requests of a store."""

from dataclasses import replace

import pytest

from latencytrace.errors import QuestionError
from latencytrace.model import RequestStatus, Stage
from latencytrace.model.detail import TraceDetail
from latencytrace.service.answers.load import capacity as answers
from latencytrace.service.answers.load.capacity import capacity_of
from latencytrace.service.answers.load.sentence import sentence
from latencytrace.service.cohort import Cohort
from latencytrace.service.store import Store
from tests.support.builders.made_requests import START_NS, made_request
from tests.support.fakes.listed_requests import store_of

MS = 1_000_000
HOUR_NS = 3600 * 1000 * MS
NOW_NS = START_NS + HOUR_NS
COHORT = Cohort(service="rag")


def paired(requests: int = 600) -> Store:
    """Requests that come two at a time; of each second one nothing but its duration is known."""
    return store_of(
        *(
            replace(
                made_request(stages={Stage.DECODE: 8 * MS}),
                trace_id=f"{number + 1:032x}",
                start_ns=START_NS + number // 2 * 10 * MS,
                status=RequestStatus.ERROR if number % 4 == 0 else RequestStatus.OK,
                detail=TraceDetail.SERVER_SPAN if number % 2 else TraceDetail.FULL,
            )
            for number in range(requests)
        )
    )


def test_requests_without_stages_are_under_way_too() -> None:
    document = capacity_of(paired(), COHORT, (), NOW_NS)

    assert (document["requests"], document["max_concurrency"]) == (600, 2)
    assert document["read_requests"] < 300
    assert document["concurrency"] == pytest.approx(1.6, rel=0.02)
    (level,) = document["levels"]
    assert (level["concurrency"], level["concurrency_to"]) == (1, 2)
    assert level["served_per_second"] == pytest.approx(1.5 / 0.008, rel=0.02)
    assert document["knee"] is None
    assert document["sentence"].startswith("No saturation found up to 1 concurrent request.")


def test_more_requests_than_can_be_counted_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_REQUESTS", 599)

    with pytest.raises(QuestionError, match="take a shorter time, or one instance"):
        capacity_of(paired(), COHORT, (), NOW_NS)


def test_a_request_that_a_wrong_clock_dates_ahead_changes_nothing() -> None:
    (ahead,) = paired(1).of_service("rag")
    right = capacity_of(paired(), COHORT, (), NOW_NS)

    for hours in (24, 24 * 365 * 8):
        late = replace(ahead, trace_id="f" * 32, start_ns=START_NS + hours * HOUR_NS)
        with_it = store_of(*paired().of_service("rag"), late)

        assert capacity_of(with_it, COHORT, (), NOW_NS) == right


def test_a_time_that_is_years_long_is_counted_rightly() -> None:
    eight_years_ns = 24 * 365 * 8 * HOUR_NS
    cohort = COHORT.model_copy(update={"until_ns": NOW_NS + 2 * eight_years_ns})
    (ahead,) = paired(1).of_service("rag")
    late = replace(ahead, trace_id="f" * 32, start_ns=START_NS + eight_years_ns)

    document = capacity_of(store_of(*paired().of_service("rag"), late), cohort, (), NOW_NS)

    assert 0 < document["counted_ns"] <= eight_years_ns
    assert document["concurrency"] is not None
    assert document["concurrency"] >= 0


@pytest.mark.parametrize(
    ("most_per_s", "said"),
    [
        (30.0, "hardly more are served, and each takes longer"),
        (43.2, "more are served, up to 43.2/s, but each takes longer"),
    ],
    ids=["one server", "a batcher"],
)
def test_what_is_served_beyond_the_knee_is_said_as_it_is(most_per_s: float, said: str) -> None:
    document = capacity_of(paired(), COHORT, (), NOW_NS)
    (level,) = document["levels"]
    document["levels"] = [
        {**level, "concurrency": at, "concurrency_to": at, "served_per_second": per_s}
        for at, per_s in ((1, 90.0), (2, 26.4), (8, most_per_s))
    ]
    document["knee"] = {
        "concurrency": 2.0,
        "low": 1,
        "high": 6,
        "served_per_second": 26.4,
        "low_per_second": 22.6,
        "high_per_second": 30.6,
    }
    document["growth"] = None

    assert sentence(document) == f"Knee: 2 concurrent requests, 26.4/s. Beyond it {said}."


def test_a_stage_that_grew_only_in_between_is_named_without_figures() -> None:
    document = capacity_of(paired(), COHORT, (), NOW_NS)
    document["growth"] = {
        "calm_to": 1,
        "crowded_from": 8,
        "first_stage": Stage.LOAD,
        "first_concurrency": 4,
        "stages": [],
    }

    assert sentence(document).endswith(" load grows first, from 4 concurrent requests on.")
