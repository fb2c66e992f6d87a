"""The busiest routes have series of their own; the others are counted together."""

from collections.abc import Callable

import pytest

from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.metrics import counted_requests
from latencytrace.service.metrics.cohorts import OTHER, OVERFLOWED, RequestCohorts
from latencytrace.service.metrics.counted_requests import REPLACED_EVERY_S
from latencytrace.service.metrics.telemetry import Telemetry
from tests.support.builders.made_objectives import made_objective
from tests.support.builders.made_requests import made_request


def routes(cohorts: RequestCohorts, *named: str, service: str = "rag") -> list[str]:
    return [cohorts.named(service, route, None)[1] for route in named]


def requests_of(telemetry: Telemetry, route: str) -> float | None:
    labels = {"service": "rag", "route": route, "model": "tiny", "status": "ok"}
    return telemetry.registry.get_sample_value("latencytrace_requests_total", labels)


def test_routes_beyond_the_most_of_their_service_are_counted_as_other() -> None:
    cohorts = RequestCohorts(routes=2)

    assert routes(cohorts, "a", "b", "c", "a") == ["a", "b", OTHER, "a"]
    assert routes(cohorts, "c", service="search") == ["c"]


def test_a_route_that_is_much_busier_takes_the_place_of_the_least_busy() -> None:
    cohorts = RequestCohorts(routes=2)
    routes(cohorts, "quiet", "usual", "usual", "usual", *["busy"] * 3, "rare")

    assert cohorts.replace() == {("rag", "quiet", "")}
    assert routes(cohorts, "quiet", "usual", "busy", "rare") == [OTHER, "usual", "busy", OTHER]


def test_routes_as_busy_as_each_other_do_not_take_turns() -> None:
    cohorts = RequestCohorts(routes=1)
    routes(cohorts, "a", "b", "b")

    assert not cohorts.replace()


def test_a_pinned_route_stands_for_itself_whatever_its_traffic() -> None:
    cohorts = RequestCohorts(routes=1)
    cohorts.pinned = frozenset([("rag", "promised")])

    assert routes(cohorts, "a", "promised", "b") == ["a", "promised", OTHER]


def test_routes_without_end_take_bounded_memory() -> None:
    cohorts = RequestCohorts(most=3, routes=2)
    found = {cohorts.named(f"service-{n}", f"/{n}", None) for n in range(5000)}
    found |= {cohorts.named("service-0", f"/{n}", None) for n in range(5000)}

    assert OVERFLOWED in found
    assert len(found) == 4


@pytest.fixture
def at_s(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    def set_clock(seconds: float) -> None:
        monkeypatch.setattr(counted_requests, "now_ns", lambda: int(seconds * 1e9))

    return set_clock


def test_requests_of_other_routes_are_counted_and_no_request_is_lost(
    at_s: Callable[[float], None],
) -> None:
    at_s(0)
    telemetry = Telemetry(max_routes=1)
    telemetry.counted.count(
        LedgerTable.of([made_request(route="a"), *[made_request(route="b")] * 3])
    )

    assert (requests_of(telemetry, "a"), requests_of(telemetry, "other")) == (1, 3)
    name = "latencytrace_service_other_route_requests_total"
    assert telemetry.registry.get_sample_value(name) == 3


def test_series_of_a_route_that_is_no_longer_among_the_busiest_end(
    at_s: Callable[[float], None],
) -> None:
    at_s(0)
    telemetry = Telemetry(max_routes=1)
    telemetry.counted.count(
        LedgerTable.of([made_request(route="a"), *[made_request(route="b", output_tokens=1)] * 3])
    )
    at_s(REPLACED_EVERY_S)
    telemetry.counted.count(LedgerTable.of([made_request(route="b"), made_request(route="a")]))

    assert (requests_of(telemetry, "a"), requests_of(telemetry, "b")) == (None, 1)
    assert requests_of(telemetry, "other") == 4
    shown = {
        one.labels.get("route")
        for family in telemetry.registry.collect()
        for one in family.samples
        if family.name.startswith(("latencytrace_request", "latencytrace_stage"))
    }
    assert shown == {"b", "other"}


def test_the_route_of_an_objective_is_always_shown() -> None:
    telemetry = Telemetry(max_routes=1, objectives=[made_objective(route="POST /chat")])
    telemetry.counted.count(
        LedgerTable.of([made_request(route="a"), made_request(route="POST /chat")])
    )

    assert requests_of(telemetry, "POST /chat") == 1
