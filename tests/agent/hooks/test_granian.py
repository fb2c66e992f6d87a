"""Granian's server, in Rust, before applications of ASGI and WSGI: `latencytrace run`."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic_ns

import pytest
from opentelemetry.trace import SpanKind

from latencytrace.model import Stage, semconv
from tests.support.agent.held import HELD_NS
from tests.support.agent.receiving import ReceivedSpan, Receiver
from tests.support.servers.traced_server import traced_server
from tests.support.waiting import until

pytest.importorskip("granian")

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
ASGI = """
async def app(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    assert scope["path"] != "/broken", "a secret"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"it"})
"""
STARLETTE = """
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

async def broken(request):
    raise AssertionError("a secret")

async def item(request):
    return PlainTextResponse("it")

app = Starlette(routes=[Route("/broken", broken), Route("/{item}", item)])
"""
WSGI = """
def app(environ, start_response):
    assert environ["PATH_INFO"] != "/broken", "a secret"
    start_response("200 OK", [])
    return BODY
"""
HELD = """
import time
from pathlib import Path

async def app(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    if scope["path"] == "/holds":
        Path("holds").touch()
        while not Path("opened").exists():
            time.sleep(0.001)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"it"})
"""
LIST, PARTS = WSGI.replace("BODY", '[b"i", b"t"]'), WSGI.replace("BODY", 'iter((b"i", b"t"))')


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.mark.parametrize(
    ("program", "interface"),
    [(ASGI, "asgi"), (STARLETTE, "asgi"), (LIST, "wsgi"), (PARTS, "wsgi")],
    ids=["asgi", "starlette", "wsgi-list", "wsgi-parts"],
)
def test_a_request_is_one_server_span_in_the_trace_of_its_caller(
    receiver: Receiver, tmp_path: Path, program: str, interface: str
) -> None:
    (tmp_path / "served.py").write_text(program)
    command = (sys.executable, "-m", "granian", "--host", "127.0.0.1", "--port", "PORT")

    with traced_server(
        receiver, tmp_path, *command, "--interface", interface, "served:app", ready="/ready"
    ) as server:
        answer = server.client.get("/item", headers={"traceparent": PARENT})
        broken = server.client.get("/broken")

        def at(path: str) -> list[ReceivedSpan]:
            return [one for one in receiver.spans if one.attributes.get(semconv.URL_PATH) == path]

        server.wait_until(lambda: bool(at("/item") and at("/broken")))

    assert (answer.text, broken.status_code) == ("it", 500)
    (request,), (failed,) = at("/item"), at("/broken")
    assert request.trace_id == TRACE
    assert request.kind is failed.kind is SpanKind.SERVER
    assert request.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 200
    assert failed.attributes[semconv.ERROR_TYPE] == "AssertionError"
    assert ("content-length" in answer.headers) is (program != PARTS)


def test_a_request_begins_when_it_was_handed_to_a_loop_that_another_held(
    receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "served.py").write_text(HELD)
    holds, opened = tmp_path / "holds", tmp_path / "opened"
    command = (sys.executable, "-m", "granian", "--host", "127.0.0.1", "--port", "PORT")

    with (
        traced_server(
            receiver, tmp_path, *command, "--interface", "asgi", "served:app", ready="/ready"
        ) as server,
        ThreadPoolExecutor(2) as clients,
    ):

        def waits() -> list[ReceivedSpan]:
            """Send a request while another one holds the loop; it may come too late for that."""
            holds.unlink(missing_ok=True)
            opened.unlink(missing_ok=True)
            holder = clients.submit(server.client.get, "/holds")
            until(holds.exists)
            waiter = clients.submit(server.client.get, "/waits")
            began_ns = monotonic_ns()
            until(lambda: monotonic_ns() - began_ns >= HELD_NS)
            opened.touch()
            assert (holder.result().text, waiter.result().text) == ("it", "it")
            server.client.get("/ready")
            return [one for one in receiver.spans if one.name.startswith("event loop held by GET")]

        (wait, *_) = until(waits)
        (request,) = [one for one in receiver.spans if one.span_id == wait.parent_id]

    assert request.attributes[semconv.URL_PATH] == "/waits"
    assert wait.stage == Stage.QUEUE
    assert request.covers(wait)
