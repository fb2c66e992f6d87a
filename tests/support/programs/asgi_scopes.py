"""Serves requests of every kind with a hook's application, and prints the spans that they are."""

import asyncio
import gc
import json
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

from opentelemetry.context import attach, detach, set_value

from latencytrace.agent.hooks import asgi
from latencytrace.agent.hooks.fastapi import FastApiHook
from latencytrace.agent.timing.processor_waits import PROCESSOR_WAITS
from latencytrace.agent.timing.wrapping import beginning, timed
from latencytrace.agent.toolkit.streaming import MadeTokens
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
HEADERS: tuple[list[Any], ...] = (
    [],
    [(b"host", b"here"), (b"accept", b"*/*")],
    [(b"traceparent", PARENT + b"01")],
    [(b"traceparent", PARENT + b"03")],
    [(b"traceparent", PARENT + b"00")],
    [(b"traceparent", PARENT + b"0x")],
    [(b"traceparent", PARENT[:-3] + b"G1-01")],
    [(b"traceparent", b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01")],
    [(b"traceparent", PARENT + b"01"), (b"traceparent", PARENT + b"01")],
    [(b"traceparent", PARENT + b"01"), (b"tracestate", b"vendor=value")],
    [(b"traceparent", PARENT + b"01"), (b"baggage", b"key=value")],
    [(b"x-request-start", b"t=never")],
    [(b"Traceparent", PARENT + b"01")],
    [[b"host", b"a list"]],
    [(b"odd", "text")],
)
SCOPES: tuple[dict[str, Any], ...] = (
    {"method": "GET", "path": "/", "scheme": "http", "http_version": "1.1", "server": ("::1", 80)},
    {"method": "POST", "path": "/chat", "server": ("unix", None)},
    {"method": "GET"},
    {"method": "GET", "path": "/x", "server": None, "headers": ()},
    {"path": "/without-method"},
    {"method": "GET", "path": "/", "server": ["list", 8000]},
)


class Route:
    """As Starlette's and FastAPI's."""

    def __init__(self, path: str) -> None:
        self.path = self.path_format = path


ROUTES: tuple[dict[str, Any], ...] = (
    {},
    {"route": Route("/chat/{name}"), "root_path": ""},
    {"route": Route("/chat"), "root_path": "/mounted", "app_root_path": ""},
    {"route": Route("/chat"), "root_path": "/outer", "app_root_path": "/outer", "fastapi": {}},
    {"route": None, "path_template": "/litestar/{id}"},
    {"route": Route("")},
)
START = {"type": "http.response.start", "status": 200}
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'
ANSWERS: dict[str, tuple[dict[str, Any], ...]] = {
    "whole": (
        {**START, "headers": [(b"content-length", b"2")]},
        {"type": "http.response.body", "body": b"ok"},
    ),
    "failed": (
        {**START, "status": 500, "headers": [(b"Content-Length", b"2")]},
        {"type": "http.response.body", "body": b"no", "more_body": False},
    ),
    "without headers": ({**START, "status": 204}, {"type": "http.response.body"}),
    "packed": (
        {**START, "headers": [(b"content-encoding", b"gzip"), (b"content-length", b"2")]},
        {"type": "http.response.body", "body": b"zz"},
    ),
    "events": (
        {**START, "headers": [(b"content-type", b"text/event-stream")]},
        *({"type": "http.response.body", "body": EVENT, "more_body": True},) * 12,
        {"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": True},
        {"type": "http.response.body", "body": b"", "more_body": False},
    ),
    "text": (
        {**START, "headers": [(b"content-type", b"text/plain")]},
        *({"type": "http.response.body", "body": b"word", "more_body": True},) * 3,
        {"type": "http.response.body", "body": b"last"},
    ),
    "odd events": (
        {**START, "headers": [(b"content-type", b"text/event-stream")]},
        {"type": "http.response.body", "body": b": ping\n\n", "more_body": True},
        {"type": "http.response.body", "body": EVENT * 2, "more_body": True},
        {"type": "http.response.body", "body": bytearray(EVENT), "more_body": True},
        *({"type": "http.response.body", "body": EVENT, "more_body": True},) * 80,
        {"type": "http.response.body", "body": EVENT[:20], "more_body": True},
        {"type": "http.response.body", "body": EVENT[20:], "more_body": False},
    ),
    "pushed": (
        {**START, "headers": [(b"content-length", b"0")]},
        {"type": "http.response.push", "path": "/", "headers": []},
        {"type": "http.response.body", "body": b""},
    ),
    "made events": (
        {**START, "headers": [(b"Content-Type", b"text/event-stream")]},
        *({"type": "http.response.body", "body": EVENT, "more_body": True},) * 300,
        {"type": "http.response.body", "body": b"", "more_body": False},
    ),
    "made text": (
        {**START, "headers": []},
        *({"type": "http.response.body", "body": b"word", "more_body": True},) * 40,
        {"type": "http.response.body"},
    ),
    "none": (),
}
TIMED = {semconv.INTERVALS, semconv.TOKEN_TIMES, semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK}
TIMED |= {semconv.STREAMED_FIRST_BODY, semconv.RUNTIME_GAPS}


class Application:
    """Answers as it is told to, with a timed call of its own."""

    middleware_stack = object()


def requests() -> Iterator[tuple[dict[str, Any], str]]:
    """Yield scopes, and the answers to them."""
    plain = "whole"
    for scope, headers in product(SCOPES, HEADERS):
        yield {"headers": headers, **scope}, plain
    for route, answer in product(ROUTES, ANSWERS):
        yield {**SCOPES[0], "headers": [], **route}, answer


def serialize(*_: object, **__: object) -> None:
    """Stand for FastAPI's own work."""


async def serve_all(spans: Spans) -> list[str]:  # noqa: C901 - one program
    """Serve each request, some of them within another's context; return what was raised."""
    (patch,) = (one for one in FastApiHook.patches if one.target == "serialize_response")
    work = timed(serialize, beginning(serialize, patch, spans.recorder))

    async def original(_self: object, scope: dict[str, Any], _receive: Any, send: Any) -> None:
        work(1, scope=scope)
        made = MadeTokens() if scope["answer"].startswith("made") else None
        for message in ANSWERS[scope["answer"]]:
            if made is not None and message.get("more_body"):
                made.add()
            await send(message)
        if scope["answer"] == "none":
            raise ValueError("nothing to say")

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_message: object) -> None:
        """Take a message."""

    call, application, raised = asgi.time_application(spans.recorder, original), Application(), []
    for scope, answer in requests():
        for kind, key in (("http", None), ("http", "latencytrace.test"), ("websocket", None)):
            token = None if key is None else attach(set_value(key, "within"))
            try:
                await call(application, {"type": kind, **scope, "answer": answer}, receive, send)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raised.append(repr(error))
            if token is not None:
                detach(token)
    return raised


def told(spans: Spans) -> list[Any]:
    """Return what the spans say, but for times and ids that are drawn."""
    numbers = {span.span_id: number for number, span in enumerate(spans.all)}
    return [
        [
            span.name,
            int(span.kind.value),
            numbers.get(span.parent_id, hex(span.parent_id)),
            repr(span.status.status_code),
            bool(span.details and span.details.remote_parent),
            {
                key: str(value).count("+") if key == semconv.INTERVALS else
                (None if key in TIMED else repr(value))
                for key, value in sorted(span.attributes.items())
            },
        ]
        for span in spans.all
    ]  # fmt: skip


if __name__ == "__main__":
    gc.disable()  # a collection within a request is one of its intervals
    PROCESSOR_WAITS._files = None  # how busy the machine is says nothing of a form
    recorded = Spans()
    errors = asyncio.run(serve_all(recorded))
    sys.stdout.write(json.dumps({"spans": told(recorded), "errors": errors}))
