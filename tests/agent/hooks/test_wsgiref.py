"""The hook of the standard library's WSGI server, which Bottle and `runserver` are."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any
from wsgiref.simple_server import make_server

import flask
from opentelemetry.trace import SpanKind

from latencytrace.agent.hooks.wsgi import WsgiHook, WsgirefHook
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans
from tests.support.servers.serving import Quiet, get, serving_forever

HOOKS = (WsgiHook, WsgirefHook)


def served(application: Any) -> AbstractContextManager[str]:
    return serving_forever(make_server("127.0.0.1", 0, application, handler_class=Quiet))


def parts(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield environ["PATH_INFO"].encode()
    yield b" it"


def test_a_request_of_no_framework_is_one_server_span(spans: Spans) -> None:
    with served(parts) as url:
        answer = get(f"{url}/item?prompt=secret")

    spans.wait_for(1)
    assert answer.text == "/item it"
    assert (spans.only.name.partition(" ")[0], spans.only.kind) == ("GET", SpanKind.SERVER)
    assert spans.only.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 200
    assert "secret" not in repr(dict(spans.only.attributes))


def test_a_request_of_flask_is_one_span_too(spans: Spans) -> None:
    app = flask.Flask("shop")
    app.get("/items/<int:item>")(lambda item: f"item {item}")

    with served(app) as url:
        assert get(f"{url}/items/7").text == "item 7"

    spans.wait_for(1)
    assert spans.only.name == "GET /items/<int:item>"
