"""A load generator and the application that it measures are one row."""

from dataclasses import replace

from latencytrace.model.semconv import LOAD_GENERATOR
from latencytrace.service.answers.overview_documents import RouteDocument, overview
from latencytrace.service.cohort import Cohort
from latencytrace.service.web.pages.overview import measured
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
