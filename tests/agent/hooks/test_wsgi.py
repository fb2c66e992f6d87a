"""The hook of WSGI applications: Flask under real servers."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import flask
import gunicorn.workers.base
import httpx
import pytest
from gunicorn.http.wsgi import FileWrapper
from gunicorn.workers.sync import SyncWorker
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.trace import (
    INVALID_SPAN,
    SpanKind,
    StatusCode,
    format_trace_id,
    get_current_span,
)
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from latencytrace.agent.hooks.wsgi import WsgiHook
from latencytrace.agent.toolkit.streaming import MadeTokens
from latencytrace.model import Stage, semconv
from latencytrace.model.packed import unpack_token_times
from tests.support.agent.hooked import Spans, attribute_text, intervals_of
from tests.support.servers.serving import serving_wsgi

HOOKS = (WsgiHook,)
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
PARTS = 3


def application() -> flask.Flask:  # noqa: C901 - one function a route
    app = flask.Flask("shop")
    app.closed = []  # type: ignore[attr-defined]  # what a test looks at

    @app.get("/items/<int:item>")
    def item(item: int) -> str:
        return f"item {item}"

    @app.get("/current")
    def current() -> str:
        return format_trace_id(get_current_span().get_span_context().trace_id)

    @app.get("/parts")
    def parts() -> flask.Response:
        response = flask.Response(str(number) for number in range(PARTS))
        response.call_on_close(lambda: app.closed.append(True))  # type: ignore[attr-defined]
        return response

    @app.get("/tokens/<int:tokens>")
    def tokens(tokens: int) -> flask.Response:
        def chunks() -> Iterator[str]:
            made = MadeTokens()
            for _ in range(tokens):
                made.add()
                yield "x"

        return flask.Response(chunks())

    @app.get("/events")
    def events() -> flask.Response:
        deltas = ("", "one", "two", "three")
        chunks = [f'data: {{"choices":[{{"delta":{{"content":"{one}"}}}}]}}\n\n' for one in deltas]
        return flask.Response(iter(chunks), mimetype="text/event-stream")

    @app.get("/broken")
    def broken() -> flask.Response:
        raise LookupError("a secret")

    return app


def answered(app: Any, path: str, **headers: str) -> httpx.Response:
    with serving_wsgi(app) as url:
        return httpx.get(f"{url}{path}", headers=headers)


def test_a_request_is_one_server_span_named_after_its_route(spans: Spans) -> None:
    answered(application(), "/items/7?prompt=secret")

    spans.wait_for(1)
    assert (spans.only.name, spans.only.kind) == ("GET /items/<int:item>", SpanKind.SERVER)
    noted = spans.only.attributes
    assert noted[semconv.HTTP_ROUTE] == "/items/<int:item>"
    assert noted[semconv.URL_PATH] == "/items/7"
    assert noted[semconv.HTTP_RESPONSE_STATUS_CODE] == 200
    assert semconv.STAGE not in noted
    assert "secret" not in attribute_text(spans)


def test_a_request_belongs_to_its_callers_trace(spans: Spans) -> None:
    answer = answered(application(), "/current", traceparent=f"00-{TRACE}-{PARENT}-01")

    spans.wait_for(1)
    assert answer.text == TRACE
    assert f"{spans.only.parent_id:016x}" == PARENT


def test_the_time_since_a_front_proxy_took_the_request_is_noted(spans: Spans) -> None:
    answered(application(), "/items/7", **{"x-request-start": f"t={time.time_ns() // 1000}"})

    spans.wait_for(1)
    assert 0 <= int(str(spans.only.attributes[semconv.QUEUED_NS])) < 60_000_000_000


def test_a_path_without_a_route_names_no_route(spans: Spans) -> None:
    answered(application(), "/nowhere/17")

    spans.wait_for(1)
    assert spans.only.name == "GET"
    assert spans.only.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 404
    assert semconv.HTTP_ROUTE not in spans.only.attributes


def test_the_route_of_a_mounted_application_has_its_mount(spans: Spans) -> None:
    answered(DispatcherMiddleware(flask.Flask("outer"), {"/shop": application()}), "/shop/items/7")

    spans.wait_for(1)
    assert spans.only.name == "GET /shop/items/<int:item>"


def test_the_mount_of_a_middleware_that_takes_an_id_off_a_path_is_a_template(spans: Spans) -> None:
    inner = application()

    def outer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        _, tenant, rest = environ["PATH_INFO"].split("/", 2)
        return inner(
            {**environ, "SCRIPT_NAME": f"/{tenant}", "PATH_INFO": f"/{rest}"}, start_response
        )

    answered(outer, "/4711/items/7")

    spans.wait_for(1)
    assert spans.only.name == "GET /{id}/items/<int:item>"


def test_a_streamed_body_is_part_of_the_span_and_its_close_too(spans: Spans) -> None:
    app = application()
    body = begun_by_hand(app, "/parts")

    parts = list(body)
    open_before_close = not spans.all
    body.close()

    assert parts == [b"0", b"1", b"2"]
    assert open_before_close
    assert app.closed  # type: ignore[attr-defined]
    assert len(spans.all) == 1


def test_a_real_server_closes_the_body(spans: Spans) -> None:
    assert answered(application(), "/parts").text == "012"

    spans.wait_for(1)
    assert semconv.CANCELLED not in spans.only.attributes


def test_the_time_between_two_parts_is_that_of_sending(spans: Spans) -> None:
    body = begun_by_hand(application(), "/parts")

    list(body)
    body.close()

    assert [one.stage for one in intervals_of(spans.only)] == [Stage.RESPOND] * (PARTS + 1)


def test_the_events_of_a_streamed_body_are_read_as_they_leave(spans: Spans) -> None:
    answered(application(), "/events")

    spans.wait_for(1)
    span = spans.only
    times = unpack_token_times(str(span.attributes[semconv.TOKEN_TIMES]), span.start_time or 0)
    assert len(times.lengths_ns) == 2  # an empty delta is no token
    assert span.attributes[semconv.STREAMED_EVENTS] == 2


def test_the_tokens_of_a_streamed_body_are_timed_as_they_leave(spans: Spans) -> None:
    answered(application(), f"/tokens/{PARTS}")

    spans.wait_for(1)
    span = spans.only
    times = unpack_token_times(str(span.attributes[semconv.TOKEN_TIMES]), span.start_time or 0)
    assert len(times.lengths_ns) == PARTS - 1
    assert times.first_ns + sum(times.lengths_ns) <= (span.end_time or 0)


def test_a_body_of_one_part_is_no_stream(spans: Spans) -> None:
    answered(application(), "/tokens/1")

    assert semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK not in spans.only.attributes


def test_a_body_closed_half_way_ends_its_span_as_cancelled(spans: Spans) -> None:
    body = begun_by_hand(application(), "/parts")

    next(body)
    body.close()

    assert spans.only.attributes[semconv.CANCELLED] is True


def test_a_body_that_is_dropped_ends_its_span(spans: Spans) -> None:
    body = begun_by_hand(application(), "/parts")

    next(body)
    del body

    assert len(spans.all) == 1


def test_no_context_is_left_between_two_parts(spans: Spans) -> None:
    body = begun_by_hand(application(), "/parts")

    next(body)

    assert get_current_span() is INVALID_SPAN
    assert not spans.all


def test_an_error_that_flask_answers_is_a_500_of_its_type(spans: Spans) -> None:
    answered(application(), "/broken")

    spans.wait_for(1)
    assert spans.only.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 500
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert spans.only.status.status_code is StatusCode.ERROR
    assert "secret" not in attribute_text(spans)


def test_an_error_that_flask_lets_through_passes_through(spans: Spans) -> None:
    app = application()
    app.testing = True

    with pytest.raises(LookupError, match="a secret"):
        begun_by_hand(app, "/broken")

    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"


def test_a_file_keeps_the_type_that_servers_send_by_sendfile(spans: Spans, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    app = flask.Flask("files")
    app.add_url_rule("/file", view_func=lambda: flask.send_file(tmp_path / "file"))

    body = begun_by_hand(app, "/file", **{"wsgi.file_wrapper": FileWrapper})
    open_before = not spans.all
    body.close()

    assert isinstance(body, FileWrapper)
    assert open_before
    assert body.filelike.closed
    assert len(spans.all) == 1


def test_contribs_instrumentation_of_an_application_doubles_nothing(spans: Spans) -> None:
    app = application()
    FlaskInstrumentor().instrument_app(app, tracer_provider=spans.provider)

    answered(app, "/items/7")

    spans.wait_for(1)
    assert spans.only.tracer.name == "opentelemetry.instrumentation.flask"


def test_contribs_instrumentation_of_flask_doubles_nothing(spans: Spans) -> None:
    FlaskInstrumentor().instrument(tracer_provider=spans.provider)
    try:
        answered(application(), "/items/7")
    finally:
        FlaskInstrumentor().uninstrument()

    spans.wait_for(1)
    assert spans.only.tracer.name == "opentelemetry.instrumentation.flask"


def test_gunicorn_times_an_application_of_no_framework(spans: Spans) -> None:
    worker = loaded(SyncWorker, plain_application)

    body = worker.wsgi({"REQUEST_METHOD": "GET", "PATH_INFO": "/users/17"}, lambda *_: None)

    assert b"".join(body) == b"plain"
    body.close()
    assert spans.only.name == "GET /users/{id}"


def test_gunicorn_leaves_flask_as_it_is(spans: Spans) -> None:
    app = application()

    assert loaded(SyncWorker, app).wsgi is app
    assert not spans.all


def test_gunicorn_leaves_the_application_of_an_asgi_worker_as_it_is(spans: Spans) -> None:
    assert loaded(gunicorn.workers.base.Worker, plain_application).wsgi is plain_application
    assert not spans.all


def plain_application(environ: Any, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [b"plain"]


def loaded(kind: Any, app: object) -> Any:
    """A worker that loaded an application, without the server around it."""
    worker = kind.__new__(kind)
    worker.app = type("Application", (), {"wsgi": staticmethod(lambda: app)})
    worker.load_wsgi()
    return worker


def begun_by_hand(app: flask.Flask, path: str, **environ: object) -> Any:
    """The body of an answer, as a server gets it."""
    asked = app.test_request_context(path).request.environ
    for key in [key for key in asked if key.startswith("werkzeug.")]:
        del asked[key]
    return app({**asked, **environ}, lambda *_: lambda _: None)
