"""Requests are matched with objectives."""

from latencytrace.model import Request, RequestStatus
from latencytrace.service.objectives.counts import ObjectiveIndex
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.made_requests import made_request
from tests.support.tables.ledger_tables import tables_of

OBJECTIVES = ObjectiveIndex(
    [
        made_objective(),
        made_objective(route=None, threshold_ns=5 * SECOND_NS),
        made_objective(route="GET /other"),
        made_objective(model="large"),
        made_objective(service="search"),
    ]
)


def is_violated_by(request: Request) -> bool:
    [table] = tables_of([request])
    return bool(OBJECTIVES.violated_in(table)[0])


def test_a_slow_request_breaks_a_promise() -> None:
    assert is_violated_by(made_request(3 * SECOND_NS))
    assert not is_violated_by(made_request(SECOND_NS))


def test_an_objective_of_any_route_counts_a_request_of_another_route() -> None:
    assert is_violated_by(made_request(6 * SECOND_NS, route="GET /third"))
    assert not is_violated_by(made_request(3 * SECOND_NS, route="GET /third"))


def test_a_slow_request_that_nothing_is_promised_of_breaks_none() -> None:
    assert not is_violated_by(made_request(3 * SECOND_NS, service="unknown"))


def test_a_failed_request_breaks_a_promise() -> None:
    assert is_violated_by(made_request(1, status=RequestStatus.ERROR))
