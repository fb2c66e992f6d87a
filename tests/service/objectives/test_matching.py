"""Requests are matched with objectives."""

from latencytrace.model import RequestStatus
from latencytrace.service.objectives.matching import ObjectiveIndex
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.made_requests import made_request

OBJECTIVES = ObjectiveIndex(
    [
        made_objective(),
        made_objective(route=None, threshold_ns=5 * SECOND_NS),
        made_objective(route="GET /other"),
        made_objective(model="large"),
        made_objective(service="search"),
    ]
)


def test_a_request_belongs_to_the_objectives_of_its_route_and_of_any() -> None:
    assert [place for place, _ in OBJECTIVES.of(made_request())] == [0, 1]


def test_a_slow_request_breaks_a_promise() -> None:
    assert OBJECTIVES.are_violated(made_request(3 * SECOND_NS))
    assert not OBJECTIVES.are_violated(made_request(SECOND_NS))


def test_a_slow_request_that_nothing_is_promised_of_breaks_none() -> None:
    assert not OBJECTIVES.are_violated(made_request(3 * SECOND_NS, service="unknown"))


def test_a_failed_request_breaks_a_promise() -> None:
    assert OBJECTIVES.are_violated(made_request(1, status=RequestStatus.ERROR))
