"""The parts of a breakdown: around quantiles, and over time."""

from dataclasses import replace

import orjson
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from latencytrace.model import Request, Stage
from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.breakdown_parts import (
    AroundsDocument,
    StagesOverTimeDocument,
    arounds,
    stages_over_time,
)
from latencytrace.service.answers.overview_documents import column_length_ns
from latencytrace.service.cohort import Cohort
from latencytrace.service.store import Order
from tests.support.builders.made_requests import START_NS, made_request
from tests.support.fakes.listed_requests import store_of

SECOND_NS = 10**9


def requests(count: int) -> list[Request]:
    """One longer than the other; the slow tenth waits in a queue besides."""
    return [
        replace(
            made_request(
                stages={
                    Stage.DECODE: 1000 + number,
                    **({Stage.QUEUE: 5000} if number >= 0.9 * count else {}),
                }
            ),
            trace_id=f"{number + 1:032x}",
            start_ns=START_NS + number * SECOND_NS,
        )
        for number in range(count)
    ]


def test_the_stages_of_the_mean_request_around_a_quantile_add_up_to_it() -> None:
    found = arounds(store_of(*requests(5000)), Cohort())

    TypeAdapter(AroundsDocument).validate_json(orjson.dumps(found), strict=True)
    assert (found["requests"], found["needed_requests"]) == (5000, None)
    median, high, tail = found["quantiles"]
    assert [one["quantile"] for one in found["quantiles"]] == [0.5, 0.9, 0.99]
    assert [one["requests"] for one in found["quantiles"]] == [100, 100, 100]
    assert median["stages"] == {Stage.DECODE: 3500}
    assert high["stages"] == {Stage.QUEUE: 2500, Stage.DECODE: 5500}
    assert tail["stages"] == {Stage.QUEUE: 5000, Stage.DECODE: 5950}
    assert tail["mean_ns"] == 10_950
    assert tail["at_least_ns"] <= tail["mean_ns"] <= tail["at_most_ns"]


def test_of_few_requests_none_is_shown_and_it_says_how_many_are_needed() -> None:
    found = arounds(store_of(*requests(99)), Cohort())
    nothing = arounds(store_of(), Cohort())

    assert found == {"requests": 99, "needed_requests": 100, "quantiles": []}
    assert nothing == {"requests": 0, "needed_requests": 100, "quantiles": []}


def test_stages_over_time_leave_out_columns_without_requests() -> None:
    first, *_, last = requests(60)
    cohort = Cohort(since_ns=START_NS, until_ns=START_NS + 60 * SECOND_NS)

    found = stages_over_time(store_of(first, last), cohort, 0)

    TypeAdapter(StagesOverTimeDocument).validate_json(orjson.dumps(found), strict=True)
    assert found["column_ns"] == SECOND_NS
    assert [(one["since"], one["requests"], one["mean_ns"]) for one in found["columns"]] == [
        (str(START_NS), 1, 1000),
        (str(START_NS + 59 * SECOND_NS), 1, 6059),
    ]
    assert found["columns"][1]["stages"] == {Stage.QUEUE: 5000, Stage.DECODE: 1059}


def test_a_list_says_how_many_requests_match() -> None:
    store = store_of(*requests(7))

    few = answers.requests(store, Cohort(), Order.NEWEST, 3)
    every = answers.requests(store, Cohort(), Order.NEWEST, 8)

    assert (len(few["requests"]), few["matching"]) == (3, 7)
    assert (len(every["requests"]), every["matching"]) == (7, 7)


@given(
    st.integers(min_value=0, max_value=10**19),
    st.integers(min_value=1, max_value=10**16),
    st.integers(min_value=1, max_value=200),
)
def test_columns_are_round_and_as_many_as_asked_for_at_most(
    since_ns: int, length_ns: int, columns: int
) -> None:
    column_ns = column_length_ns(since_ns, since_ns + length_ns, columns)

    assert columns * column_ns >= length_ns
    assert column_ns % SECOND_NS == 0 or column_ns < SECOND_NS
    assert column_ns % 10**6 == 0 or column_ns < 10**6
    assert column_ns <= 2 * -(-length_ns // columns)
