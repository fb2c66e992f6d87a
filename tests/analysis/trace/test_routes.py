"""Which route a request took; one without any is `unmatched`, whatever was asked for."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from fastapi import FastAPI
from flask import Flask
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware as AsgiMiddleware
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.instrumentation.wsgi import OpenTelemetryMiddleware as WsgiMiddleware
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from werkzeug.test import Client
from werkzeug.wrappers import Response

from latencytrace.analysis.trace.routes import UNMATCHED, is_health, route_of
from latencytrace.model import AttributeValue, Span, SpanKind
from latencytrace.model.texts.escaped import UNNAMED
from tests.analysis.fixtures.recording import FIXTURES
from tests.support.builders.spans.recorded import recorded_requests, spans_of
from tests.support.builders.spans.trees import root, span

Get = Callable[[str], object]
PATHS = ("/chat", "/chats/1", "/chats/2?q=a%20b", "/a%20b", "/")


def server_span(name: str, **attributes: AttributeValue) -> Span:
    keyed = {key.replace("_", "."): value for key, value in attributes.items()}
    return replace(root(attributes=keyed), name=name)


def fastapi(provider: TracerProvider) -> Get:
    application = FastAPI()
    application.get("/chat")(lambda: "hello")
    FastAPIInstrumentor.instrument_app(application, tracer_provider=provider)
    return TestClient(application).get


def flask(provider: TracerProvider) -> Get:
    application = Flask("chat")
    application.get("/chat")(lambda: "hello")
    FlaskInstrumentor().instrument_app(application, tracer_provider=provider)
    return application.test_client().get


def bare_asgi(provider: TracerProvider) -> Get:
    return TestClient(AsgiMiddleware(PlainTextResponse("hello"), tracer_provider=provider)).get


def bare_wsgi(provider: TracerProvider) -> Get:
    return Client(WsgiMiddleware(Response("hello"), tracer_provider=provider)).get


def served(application: Callable[[TracerProvider], Get], paths: Iterable[str]) -> list[Span]:
    """The server spans of contrib's instrumentation."""
    ended = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": "chat"}))
    provider.add_span_processor(SimpleSpanProcessor(ended))
    get = application(provider)
    for path in paths:
        get(path)
    message = encode_spans(ended.get_finished_spans())
    spans = [one for resource in message.resource_spans for one in spans_of(resource)]
    return [one for one in spans if one.kind is SpanKind.SERVER]


@pytest.mark.parametrize("name", ["", " ", "\t\n", "\u200b", "\u3164 \u2800", "\x00"])
@pytest.mark.parametrize("route", [None, "", " "])
def test_what_nobody_named_has_one_name_that_can_be_seen(name: str, route: str | None) -> None:
    told = {} if route is None else {"http.route": route, "http.request.method": "GET"}

    assert route_of(replace(root(attributes=told), name=name)) == UNNAMED


@pytest.mark.parametrize(
    ("application", "routes"),
    [
        (fastapi, {"GET /chat", UNMATCHED}),
        (flask, {"GET /chat", UNMATCHED}),
        (bare_asgi, {UNMATCHED}),
        (bare_wsgi, {UNMATCHED}),
    ],
)
def test_contribs_requests_without_a_route_are_one(
    application: Callable[[TracerProvider], Get], routes: set[str]
) -> None:
    spans = served(application, PATHS)

    assert len(spans) == len(PATHS)
    assert {route_of(one) for one in spans} == routes


def test_a_recorded_request_that_no_route_matched_is_unmatched() -> None:
    assert (FIXTURES / "contrib_asgi.json").exists()
    assert [one.route for one in recorded_requests("contrib_asgi")] == ["POST /chat", UNMATCHED]


@pytest.mark.parametrize(
    "made",
    [
        server_span("GET", http_request_method="GET", url_path="/x/1"),
        server_span("HTTP GET", **{"http.method": "GET"}),
        server_span("GET /x/1", **{"http.method": "GET", "http.target": "/x/1?y=2"}),
        server_span("GET /x/1?y=2", **{"http.method": "GET", "http.url": "http://h/x/1?y=2"}),
        server_span("/x/1", http_request_method="GET", url_path="/x/1"),
        server_span("/a b", http_request_method="GET", url_full="https://h/a%20b"),
    ],
    ids=lambda made: made.name,
)
def test_a_server_span_named_by_what_was_asked_for_is_unmatched(made: Span) -> None:
    assert route_of(made) == UNMATCHED


@pytest.mark.parametrize(
    ("made", "route"),
    [
        (server_span("x", http_request_method="GET", http_route="/x/{id}"), "GET /x/{id}"),
        (
            server_span("X7 /x/{id}", http_request_method="X7", http_route="/x/{id}"),
            "HTTP /x/{id}",
        ),
        (server_span("HTTP", http_request_method="_OTHER", http_route="/x/{id}"), "HTTP /x/{id}"),
        (server_span("GET x-by-id", http_request_method="GET", url_path="/x/1"), "GET x-by-id"),
        (server_span("GET /x/{id}", http_request_method="GET", url_path="/x/1"), "GET /x/{id}"),
        (server_span("package.Service/Method"), "package.Service/Method"),
        (server_span("GET"), "GET"),
        (
            replace(server_span("GET", http_request_method="GET"), kind=SpanKind.CLIENT),
            "GET",
        ),
    ],
    ids=[
        "template",
        "made-up method",
        "unknown method",
        "own name",
        "template in its name",
        "gRPC",
        "no method",
        "client",
    ],
)
def test_a_name_that_tells_more_is_the_route(made: Span, route: str) -> None:
    assert route_of(made) == route


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/health/liveliness"),  # LiteLLM
        ("GET", "/health/liveness"),
        ("GET", "/health/readiness"),
        ("GET", "/health/services"),
        ("GET", "/health"),  # vLLM
        ("POST", "/ping"),
        ("GET", "/metrics/"),
        ("GET", "/version"),
        ("GET", "/load"),
        ("GET", "/v2/health/live"),  # KServe
        ("GET", "/v2/health/ready"),
        ("GET", "/v2/models/iris/ready"),
        ("GET", "/v2/models/{model_name}/versions/{model_version}/ready"),
        ("GET", "/v1/models/iris"),
        ("GET", "/-/healthz"),  # Ray Serve
        ("GET", "/-/routes"),
    ],
)
def test_probes_of_the_servers_we_know_are_known(method: str, path: str) -> None:
    by_route = server_span("any", http_request_method=method, http_route=path)
    by_path = server_span(method, http_request_method=method, url_path=path)

    assert (is_health(by_route), is_health(by_path)) == (True, True)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/load"),
        ("POST", "/v1/models/iris:predict"),
        ("POST", "/v1/models/iris"),
        ("GET", "/v1/models"),
        ("POST", "/v2/models/iris/infer"),
        ("GET", "/health/records"),
        ("GET", "/-/login"),
    ],
)
def test_what_only_looks_like_a_probe_is_a_request(method: str, path: str) -> None:
    assert not is_health(server_span("any", http_request_method=method, http_route=path))


@pytest.mark.parametrize("method", ["ServerLive", "ServerReady", "ModelReady"])
def test_kserves_probes_over_grpc_are_known(method: str) -> None:
    name = f"inference.GRPCInferenceService/{method}"

    assert is_health(span(name, 0, 1, parent=None, kind=SpanKind.SERVER))
