"""Requests that lie in their socket while uvicorn's event loop is held."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn.protocols.http.h11_impl
import uvicorn.protocols.http.httptools_impl
import uvloop  # noqa: F401 - the hook of loops waits for it
from fastapi import FastAPI, Request

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.hooks.asgi import AsgiHook
from latencytrace.agent.hooks.event_loop import EventLoopHook
from latencytrace.agent.hooks.uvicorn import UvicornHook
from latencytrace.agent.timing.costs import FIRST, apart
from latencytrace.agent.timing.processor_waits import PROCESSOR_WAITS
from latencytrace.model import Stage, semconv
from tests.support.agent.held import (
    HELD_NS,
    HOLDS,
    JIFFY_NS,
    WAITS,
    Gate,
    ask,
    connected,
    read_all,
    request,
    requests_to,
    sent_while_held,
    waits_of,
)
from tests.support.agent.hooked import Spans, hooked
from tests.support.agent.told_schedstat import ToldSchedstat
from tests.support.servers.serving import get, serving
from tests.support.waiting import PATIENCE_S

PROTOCOLS = pytest.mark.parametrize("http", ["h11", "httptools"])
LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


def application(gate: Gate, **options: Any) -> FastAPI:
    app = FastAPI(**options)

    @app.get(HOLDS)
    async def holds() -> None:
        gate.hold()

    @app.get(WAITS)
    @app.post(WAITS)
    async def waits(request: Request) -> int:
        return len(await request.body())

    @app.get("/lets-go")
    async def lets_go() -> None:
        await asyncio.sleep(0)

    return app


@contextmanager
def served(gate: Gate, **options: str) -> Iterator[tuple[str, Spans]]:
    with (
        hooked(EventLoopHook, AsgiHook, UvicornHook) as spans,
        serving(application(gate), **options) as url,
    ):
        yield url, spans


@PROTOCOLS
@LOOPS
@pytest.mark.parametrize("kept", [False, True], ids=["new", "kept"])
def test_a_request_begins_when_it_came_though_the_loop_was_held(
    http: str, loop: str, *, kept: bool
) -> None:
    gate = Gate()
    with served(gate, http=http, loop=loop) as (url, spans):
        client = connected(url)
        if kept:
            client.sendall(request("/lets-go", last=False))
            assert b" 200 " in client.recv(1 << 16)
        sent = sent_while_held(url, gate, client)

        (span,) = requests_to(spans, WAITS)
        (wait,) = waits_of(spans, span)
        assert gate.began_ns - JIFFY_NS <= span.started_ns <= sent.at_ns + JIFFY_NS
        assert wait.started_ns == span.started_ns
        assert wait.ended_ns >= sent.at_ns + HELD_NS
        assert wait.name == f"event loop held by GET {HOLDS}"
        assert span.ended_ns <= sent.answered_ns or span.ended_ns - wait.ended_ns < HELD_NS


class Starved(Gate):
    """Holds its thread as another process does that has the processor.

    Args:
        told: What the kernel tells.
    """

    def __init__(self, told: ToldSchedstat) -> None:
        super().__init__()
        self._told = told

    def hold(self) -> None:
        """Wait for the processor, as the kernel tells it: longer than the step takes in all."""
        super().hold()
        self._told.wait(100 * HELD_NS)


def test_a_request_waits_for_a_processor_where_nothing_else_held_its_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Starved(told := ToldSchedstat(tmp_path))
    monkeypatch.setattr(PROCESSOR_WAITS, "_path", told.path)
    monkeypatch.setattr(PROCESSOR_WAITS, "_files", {})
    with served(gate) as (url, spans):
        sent = sent_while_held(url, gate)

        (span,) = requests_to(spans, WAITS)
        (wait,) = [one for one in spans.of(Stage.RUNTIME) if one.parent_id == span.span_id]
        assert wait.name == "wait for a processor"
        assert wait.started_ns == span.started_ns <= sent.at_ns + JIFFY_NS
        assert wait.ended_ns >= sent.at_ns + HELD_NS
    PROCESSOR_WAITS.reset_after_fork()


@PROTOCOLS
def test_what_it_costs_to_note_when_a_request_came_is_sampled(http: str) -> None:
    with (
        apart() as made,
        hooked(UvicornHook),
        serving(application(Gate()), http=http) as url,
    ):
        for _ in range(FIRST):
            get(f"{url}/lets-go")

    (cost,) = (cost for cost in made if cost.calls)
    assert cost.calls >= FIRST  # h11's method is called once a part
    assert cost.ns


def test_a_request_that_waited_behind_another_was_not_alone() -> None:
    gate = Gate()
    with served(gate) as (url, spans):
        sent_while_held(url, gate)

        (span,) = requests_to(spans, WAITS)
        assert span.attributes[semconv.CONCURRENCY] == 2


@LOOPS
def test_what_holds_the_loop_for_no_request_is_named_after_its_function(loop: str) -> None:
    gate, loops = Gate(), list[asyncio.AbstractEventLoop]()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        loops.append(asyncio.get_running_loop())
        yield

    async def refresh() -> None:
        gate.hold()

    app = application(gate, lifespan=lifespan)
    with (
        hooked(EventLoopHook, AsgiHook, UvicornHook) as spans,
        serving(app, loop=loop) as url,
        connected(url) as waiter,
    ):
        get(f"{url}/lets-go")  # what is before a server's first request is its start
        refreshed = asyncio.run_coroutine_threadsafe(refresh(), loops[0])
        assert gate.holds.wait(PATIENCE_S)
        ask(waiter, WAITS)
        gate.open(monotonic_ns() + HELD_NS)
        read_all(waiter)
        refreshed.result(PATIENCE_S)

        (span,) = requests_to(spans, WAITS)
        (wait,) = waits_of(spans, span)
        assert wait.name.startswith("event loop held by test_what_holds")
        assert wait.name.endswith("refresh")


@PROTOCOLS
def test_a_request_behind_another_on_its_connection_does_not_wait_for_the_loop(http: str) -> None:
    gate = Gate()
    both = request(HOLDS, last=False) + request(WAITS)
    with served(gate, http=http) as (url, spans):
        with connected(url) as client:
            client.sendall(both)
            assert gate.holds.wait(PATIENCE_S)
            gate.open(gate.began_ns + HELD_NS)
            assert read_all(client).count(b" 200 ") == 2

        (span,) = requests_to(spans, WAITS)
        (before,) = requests_to(spans, HOLDS)
        assert all(wait.started_ns >= gate.opened_ns for wait in waits_of(spans, span))
        assert span.started_ns >= before.started_ns


def test_the_time_behind_a_proxy_ends_where_the_wait_in_the_socket_begins() -> None:
    gate, passed_ns = Gate(), 1_000_000_000

    def send(client: socket.socket) -> None:
        taken_us = (time.time_ns() - passed_ns) // 1_000
        client.sendall(
            f"GET {WAITS} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            f"X-Request-Start: t={taken_us}\r\n\r\n".encode()
        )

    with served(gate) as (url, spans):
        sent = sent_while_held(url, gate, send=send)

        (span,) = requests_to(spans, WAITS)
        (wait,) = waits_of(spans, span)
        queued_ns = int(str(span.attributes[semconv.QUEUED_NS]))
        assert span.started_ns <= sent.at_ns + JIFFY_NS
        assert queued_ns + (wait.ended_ns - wait.started_ns) >= passed_ns + HELD_NS
        assert queued_ns <= passed_ns + (sent.answered_ns - sent.at_ns)


def test_of_a_unix_socket_nothing_is_known_and_nothing_fails(tmp_path: Path) -> None:
    gate = Gate()
    path = str(tmp_path / "socket")
    with hooked(EventLoopHook, AsgiHook, UvicornHook) as spans:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            opened_ns = _ask_over(listener, path, gate)

        (span,) = requests_to(spans, WAITS)
        assert span.started_ns >= opened_ns


def _ask_over(listener: socket.socket, path: str, gate: Gate) -> int:
    server = uvicorn.Server(uvicorn.Config(application(gate), log_config=None))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        with socket.socket(socket.AF_UNIX) as holder, socket.socket(socket.AF_UNIX) as waiter:
            for client in (holder, waiter):
                client.connect(path)
            ask(holder, HOLDS)
            assert gate.holds.wait(PATIENCE_S)
            ask(waiter, WAITS)
            gate.open(0)
            read_all(waiter)
            read_all(holder)
        return gate.opened_ns
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
