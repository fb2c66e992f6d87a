"""The hook of Robyn: `latencytrace run -- python served.py`, with its server in Rust."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from latencytrace.agent.hooks.robyn import RobynHook
from latencytrace.model import semconv
from tests.support.agent.hooked import hooked
from tests.support.agent.receiving import Receiver
from tests.support.servers.traced_server import TracedServer, traced_server

robyn = pytest.importorskip("robyn")

HOOKS = (RobynHook,)
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
PROGRAM = """
import asyncio
import sys

from robyn import Response, Robyn

app = Robyn(__file__)


@app.get("/", const=True)
async def ready():
    return "ready"


@app.get("/items/:item")
async def item(request):
    await asyncio.sleep(0)
    return {"item": request.path_params["item"]}


@app.get("/plain")
def plain():
    return "plain"


@app.get("/missing")
def missing(request):
    return Response(404, {}, "a secret")


@app.get("/broken")
async def broken(request):
    raise LookupError("a secret")


app.start(host="127.0.0.1", port=int(sys.argv[1]))
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def server(receiver: Receiver, tmp_path: Path) -> Iterator[TracedServer]:
    (tmp_path / "served.py").write_text(PROGRAM)
    command = (sys.executable, "served.py", "PORT")
    with traced_server(receiver, tmp_path, *command, ready="/") as server:
        yield server


def test_a_request_is_one_server_span_in_the_trace_of_its_caller(server: TracedServer) -> None:
    answer = server.client.get("/items/7?prompt=secret", headers={"traceparent": PARENT})

    assert answer.json() == {"item": "7"}
    (request,) = server.spans("GET /items/:item", 1)
    assert (request.kind, request.trace_id) == (SpanKind.SERVER, TRACE)
    assert request.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 200
    assert request.attributes[semconv.URL_PATH] == "/items/7"
    assert "secret" not in repr(request.attributes)


def test_errors_are_the_servers_own_or_the_callers(server: TracedServer) -> None:
    paths = ("/plain", "/missing", "/broken")

    statuses = [server.client.get(path).status_code for path in paths]

    assert statuses == [200, 404, 500]
    plain, missing, broken = (server.spans(f"GET {path}", 1)[0] for path in paths)
    assert plain.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 200
    assert missing.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 404
    assert missing.status is StatusCode.UNSET
    assert broken.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert broken.status is StatusCode.ERROR


def test_a_handler_is_the_programs_own_once_nothing_is_timed() -> None:
    app: Any = robyn.Robyn(__file__)
    with hooked(*HOOKS):
        app.get("/plain")(lambda: "plain")
        (route,) = app.router.routes
        timed = route.function.handler

    assert route.function.handler is timed.__wrapped__
