"""Alerts name what separates bad requests from good ones of the same time, or nothing."""

import numpy as np
import pytest

from latencytrace.model import Distinction
from latencytrace.service.objectives.counts import ObjectiveCounts
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.traffic import START_NS
from tests.support.simulation.separated import BEFORE_S, REASONS, Separated, separated
from tests.support.tables.ledger_tables import tables_of

A_BATCH = 50
RELEASED_NS = START_NS + BEFORE_S * SECOND_NS


def told(traffic: Separated) -> tuple[Distinction, ...]:
    """What an alert that has fired since the release says of its requests."""
    counts = ObjectiveCounts(made_objective())
    for begin in range(0, len(traffic.requests), A_BATCH):
        (table,) = tables_of(traffic.requests[begin : begin + A_BATCH])
        counts.count(table, np.arange(len(table)), table.end_ns)
    return counts.latest.evidence(RELEASED_NS).distinctions


def is_named(traffic: Separated) -> bool:
    found = told(traffic)
    return (
        bool(found) and found[0].trait == traffic.key and traffic.value in {None, found[0].value}
    )


@pytest.mark.long
def test_the_reason_comes_first_in_95_of_100_incidents() -> None:
    named = [is_named(separated(seed, REASONS[seed % 4])) for seed in range(1_000, 1_100)]

    assert sum(named) >= 95


@pytest.mark.long
def test_nothing_is_named_where_nothing_separates_in_98_of_100_incidents() -> None:
    named = sum(bool(told(separated(seed, None))) for seed in range(2_000, 2_100))

    assert named <= 2


def test_a_release_before_the_incident_is_not_named_instead_of_the_tenant() -> None:
    [found, *_] = told(separated(7, "tenant"))

    assert found.trait == "tenant"
    assert found.bad_ratio - found.good_ratio > 0.5
