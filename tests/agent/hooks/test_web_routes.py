"""Routes that a framework finds while spans of others are around its search."""

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from latencytrace.agent.api.requests import UserRequest
from latencytrace.agent.hooks.web_routes import noted_routes
from latencytrace.agent.toolkit.http.server import ServedRequest
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans


def test_a_route_found_within_another_span_is_that_of_the_request() -> None:
    spans = Spans()
    find = noted_routes(lambda _, found: found)(spans.recorder, lambda: "items/{item}")
    request = ServedRequest(
        spans.recorder, "GET", {semconv.HTTP_REQUEST_METHOD: "GET"}, Context(), on_loop=False
    )
    request.activate()
    stage = spans.recorder.start("routing", Stage.PREPROCESS)
    stage.activate()

    assert find() == "items/{item}"

    stage.deactivate()
    stage.end()
    request.deactivate()
    request.end()
    routing, served = spans.all
    assert (served.name, served.kind) == ("GET /items/{item}", SpanKind.SERVER)
    assert served.attributes[semconv.HTTP_ROUTE] == "/items/{item}"
    assert routing.name == "routing"
    assert semconv.HTTP_ROUTE not in routing.attributes


def test_a_route_found_after_the_request_has_ended_changes_nothing() -> None:
    spans = Spans()
    find = noted_routes(lambda _, found: found)(spans.recorder, lambda: "items/{item}")
    request = ServedRequest(spans.recorder, "GET", {}, Context(), on_loop=False)
    request.activate()
    request.end()

    assert find() == "items/{item}"

    request.deactivate()
    assert spans.names == ["GET"]
    assert semconv.HTTP_ROUTE not in spans.only.attributes


def test_a_route_found_within_a_request_of_its_own_is_not_that_of_the_one_around() -> None:
    spans = Spans()
    find = noted_routes(lambda _, found: found)(spans.recorder, lambda: "items/{item}")
    request = ServedRequest(spans.recorder, "GET", {}, Context(), on_loop=False)
    request.activate()

    with UserRequest(lambda: spans.recorder, "nightly", {}):
        find()

    request.deactivate()
    request.end()
    assert spans.names == ["nightly", "GET"]
