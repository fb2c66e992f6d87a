"""A selection in the heat map names the stage and the trait of a simulated incident."""

import pytest

from latencytrace.analysis.tail.groups import Selection
from latencytrace.model import Request, Stage
from latencytrace.service.answers.tail import tail_of_selected
from latencytrace.service.answers.tail_documents import TailDocument
from latencytrace.service.cohort import Cohort
from tests.support.builders.made_objectives import SECOND_NS
from tests.support.builders.traffic import START_NS
from tests.support.fakes.listed_requests import store_of
from tests.support.simulation.separated import (
    BEFORE_S,
    INCIDENT_S,
    REASONS,
    Separated,
    separated,
)

SLOW_NS = 3 * SECOND_NS // 2
RELEASED_NS = START_NS + BEFORE_S * SECOND_NS
END_NS = RELEASED_NS + INCIDENT_S * SECOND_NS


def told(traffic: Separated) -> TailDocument:
    """Why the slow requests since the release are slow."""
    box = Selection(
        at_least_ns=SLOW_NS, at_most_ns=60 * SECOND_NS, since_ns=RELEASED_NS, until_ns=END_NS
    )
    since_ns = START_NS - 60 * SECOND_NS  # requests are placed by their ends
    cohort = Cohort(since_ns=since_ns, until_ns=END_NS)
    return tail_of_selected(store_of(*traffic.requests), cohort, box)


def has_trait(request: Request, traffic: Separated) -> bool:
    """Tell whether a request shows the reason of an incident."""
    if traffic.key == "input_tokens":
        return (request.input_tokens or 0) > 1_000
    attributes = dict(request.attributes)
    return traffic.value in {getattr(request, str(traffic.key), None), attributes.get("tenant")}


def is_right(traffic: Separated) -> bool:
    """Tell whether stage and trait are the incident's, and the examples show both."""
    found = told(traffic)
    cause = found["cause"]
    if cause is None or (cause["stage"], cause["key"]) != (Stage.RETRIEVE, traffic.key):
        return False
    shown = [one for one in traffic.requests if one.trace_id in found["examples"]]
    return traffic.value in {None, cause["value"]} and all(
        has_trait(one, traffic) and one.ledger[Stage.RETRIEVE] > SECOND_NS for one in shown
    )


@pytest.mark.long
def test_stage_and_trait_are_right_in_95_of_100_selections() -> None:
    right = [is_right(separated(seed, REASONS[seed % 4])) for seed in range(4_000, 4_100)]

    assert sum(right) >= 95


def test_a_release_before_the_selection_is_not_named_instead_of_the_tenant() -> None:
    cause = told(separated(7, "tenant"))["cause"]

    assert cause is not None
    assert (cause["stage"], cause["key"]) == (Stage.RETRIEVE, "tenant")
