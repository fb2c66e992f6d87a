"""The first page's sentence and cards: what is wrong, where, since when, of whom."""

from dataclasses import replace
from typing import cast
from urllib.parse import parse_qs, urlsplit

from latencytrace.model import AlertKind, Severity
from latencytrace.service.alerting.document import AlertLinks, alert_document, objective_document
from latencytrace.service.answers.documents import AlertDocument, ObjectiveDocument
from latencytrace.service.web.pages.incidents import headline, incidents
from tests.support.builders.notices import made_alert

LINKS = AlertLinks(service="http://here", dashboard=None)
PAGE = made_alert()
TICKET = replace(PAGE, severity=Severity.TICKET)
OBJECTIVE = objective_document(PAGE.standing)
NOW_NS = PAGE.started_ns + 60 * 10**9


def documents(*alerts: object) -> list[AlertDocument]:
    return [alert_document(one, LINKS) for one in alerts]  # type: ignore[arg-type] # alerts


def objective(**more: object) -> ObjectiveDocument:
    return cast("ObjectiveDocument", {**OBJECTIVE, **more})


def test_a_page_and_a_ticket_of_one_route_are_one_incident() -> None:
    (found,) = incidents(documents(TICKET, PAGE), [OBJECTIVE])

    assert [one["labels"]["severity"] for one in found.alerts] == ["page", "ticket"]


def test_the_sentence_says_what_since_when_the_stage_and_who() -> None:
    found = incidents(documents(PAGE), [OBJECTIVE])

    said = headline(found, [OBJECTIVE], {}, NOW_NS)

    assert said == "1 incident: POST /chat slow since 01:43 UTC, retrieve, instance rag-2"


def test_where_nothing_separates_bad_requests_nobody_is_named() -> None:
    alike = replace(PAGE, evidence=replace(PAGE.evidence, distinctions=()))
    (found,) = incidents(documents(alike), [OBJECTIVE])

    assert found.who is None
    assert found.sentence(NOW_NS).endswith(", retrieve")


def test_its_links_lead_to_the_bad_requests_and_why_they_are_slow() -> None:
    (found,) = incidents(documents(PAGE), [OBJECTIVE])

    why, listed = urlsplit(found.why), urlsplit(found.requests)
    assert (why.path, listed.path) == ("/tail", "/requests")
    assert parse_qs(why.query)["selected"] == ["2000000001ns.."]
    assert parse_qs(listed.query)["duration"] == ["2000000001ns.."]


def test_of_many_incidents_three_are_said() -> None:
    routes = [
        replace(
            PAGE,
            standing=replace(
                PAGE.standing, objective=replace(PAGE.standing.objective, route=f"GET /{n}")
            ),
        )
        for n in range(5)
    ]

    said = headline(incidents(documents(*routes), []), [], {}, NOW_NS)

    assert said.startswith("5 incidents: GET /0 slow since ")
    assert said.endswith(" and 2 more")


def test_without_an_incident_it_says_that_all_is_well_and_how_much_there_is() -> None:
    traffic = {
        "per_s": "3.90",
        "name": "POST /chat",
        "p99_ns": 33 * 10**8,
        "change": ", as before",
        "slower": [],
    }
    met = [objective(budget_left_ratio=0.5)] * 3

    assert headline([], met, traffic, NOW_NS) == (
        "All 3 objectives met; 3.90 req/s; POST /chat p99 3.30 s, as before"
    )
    assert headline([], [], {}, NOW_NS) == "No incident; no objective is set; no requests"
    assert headline([], met, {**traffic, "slower": ["GET /a", "GET /b"]}, NOW_NS) == (
        "All 3 objectives met; slower than before: GET /a and 1 more; 3.90 req/s; "
        "POST /chat p99 3.30 s, as before"
    )


def test_where_no_request_comes_no_stage_is_slow_and_nobody_is_named() -> None:
    (found,) = incidents(documents(replace(PAGE, kind=AlertKind.NO_DATA)), [OBJECTIVE])

    assert found.sentence(NOW_NS) == "POST /chat silent since 01:43 UTC"


def test_routes_of_one_service_that_fall_silent_are_one_incident() -> None:
    quiet = replace(PAGE, kind=AlertKind.NO_DATA)
    routes = [
        replace(
            quiet,
            standing=replace(
                quiet.standing, objective=replace(quiet.standing.objective, route=f"GET /{n}")
            ),
        )
        for n in range(3)
    ]

    slow, silent = incidents(documents(PAGE, *routes), [OBJECTIVE])

    assert slow.sentence(NOW_NS).startswith("POST /chat slow since ")
    assert silent.sentence(NOW_NS) == "3 routes of rag silent since 01:43 UTC"
    assert [silent.is_of("rag", f"GET /{n}") for n in range(4)] == [True, True, True, False]
    assert "route=" not in silent.requests


def test_a_budget_that_is_spent_is_said_even_without_an_alert() -> None:
    said = headline([], [objective(budget_left_ratio=-0.2)], {}, NOW_NS)

    assert said == "No incident now; budget spent: chat-e2e; no requests"


def test_an_objective_without_data_is_not_called_met() -> None:
    met, unknown = objective(budget_left_ratio=0.5), objective(budget_left_ratio=None)

    assert (
        headline([], [unknown], {}, NOW_NS) == "No incident; no data for 1 objective; no requests"
    )
    assert headline([], [met, met, unknown], {}, NOW_NS).startswith(
        "2 of 3 objectives met, 1 without data"
    )


def test_a_budget_of_which_just_nothing_is_left_is_spent() -> None:
    said = headline([], [objective(budget_left_ratio=0.0)], {}, NOW_NS)

    assert said == "No incident now; budget spent: chat-e2e; no requests"
