"""A load generator and the application that it measures are one row; traffic is counted once."""

from dataclasses import replace

from latencytrace.model.semconv import LOAD_GENERATOR
from latencytrace.service.answers.overview_documents import RouteDocument, overview
from latencytrace.service.cohort import Cohort
from latencytrace.service.web.pages.overview import Row, measured, traffic
from tests.support.builders.listed_requests import Listed
from tests.support.builders.made_requests import START_NS, made_request

NOW_NS = START_NS + 10**12


def routes(*names: tuple[str, str]) -> list[RouteDocument]:
    """Routes as an overview has them: service and route."""
    made = [
        replace(made_request(service=service, route=route), trace_id=f"{number + 1:032x}")
        for number, (service, route) in enumerate(names)
    ]
    return overview(Listed(made), Cohort(since_ns=START_NS), NOW_NS)["routes"]


def names(found: list[RouteDocument]) -> set[tuple[str, str]]:
    return {(one["service"], one["route"]) for one in found}


def test_what_the_generator_saw_stands_in_the_row_of_the_application() -> None:
    loads, rows = measured(
        routes((LOAD_GENERATOR, "POST /chat"), ("rag", "POST /chat"), ("rag", "GET /items"))
    )

    assert loads["POST /chat"]["service"] == LOAD_GENERATOR
    assert names(list(rows)) == {("rag", "POST /chat"), ("rag", "GET /items")}


def test_a_generator_whose_target_sends_no_spans_has_its_own_row() -> None:
    loads, rows = measured(routes((LOAD_GENERATOR, "POST /chat"), ("rag", "GET /items")))

    assert loads == {}
    assert names(list(rows)) == {(LOAD_GENERATOR, "POST /chat"), ("rag", "GET /items")}


def test_a_request_through_two_services_is_one_request_of_the_traffic() -> None:
    made = [
        replace(made_request(service="edge", route="POST /chat"), trace_id=f"{1:032x}"),
        replace(made_request(service="rag", route="POST /chat"), trace_id=f"{2:032x}"),
    ]
    every = [made[0], replace(made[1], outermost=False)]
    found = overview(Listed(every), Cohort(since_ns=START_NS), NOW_NS)["routes"]
    inner = [one for one in found if one["service"] == "rag"]

    assert per_s(found) == "0.50"
    assert per_s(inner) == "0.50"  # the page of that service alone


def per_s(routes: list[RouteDocument]) -> object:
    """The traffic of two seconds."""
    return traffic([row(one) for one in routes])["per_s"]


def test_of_slower_routes_the_headline_names_one_that_callers_ask() -> None:
    found = routes(("rag", "POST /query"), ("edge", "GET /search"), ("edge", "POST /chat"))
    rows = []
    for one in sorted(found, key=lambda one: one["route"], reverse=True):
        is_inner, is_worst = one["route"] == "POST /query", one["route"] == "GET /search"
        now: RouteDocument = {**one, "outermost_requests": 0 if is_inner else one["requests"]}
        was: RouteDocument = {**one, "p99_ns": one["p99_ns"] // (20 if is_worst else 2)}
        rows.append(replace(row(now), before=was, state="slower"))

    assert traffic(rows)["slower"] == ["GET /search", "POST /chat", "POST /query"]


def row(route: RouteDocument) -> Row:
    return Row(
        route=route,
        before=None,
        state="ok",
        objectives=[],
        times_ns=(START_NS, START_NS + 2 * 10**9),
        column_ns=10**9,
        releases=[],
        load=None,
    )
