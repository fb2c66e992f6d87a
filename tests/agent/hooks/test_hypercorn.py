"""Requests that lie in their socket while hypercorn's event loop is held."""

import asyncio
from contextlib import AbstractContextManager
from typing import Any

import hypercorn.app_wrappers
import hypercorn.asyncio.tcp_server
import hypercorn.protocol.h11  # noqa: F401

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.hooks.asgi import AsgiHook
from latencytrace.agent.hooks.event_loop import EventLoopHook
from latencytrace.agent.hooks.hypercorn import HypercornHook
from tests.support.agent.held import (
    HELD_NS,
    HOLDS,
    Gate,
    a_request_begins_when_it_came,
    ask,
    connected,
    read_all,
    requests_to,
    what_is_behind_another_does_not_wait,
)
from tests.support.agent.hooked import hooked
from tests.support.servers.serving import serving_hypercorn

ANSWERS = "/answers"
HOOKS = (AsgiHook, EventLoopHook, HypercornHook)


def under_hypercorn(gate: Gate) -> AbstractContextManager[str]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            return
        if scope["path"] == HOLDS:
            gate.hold()
        if scope["path"] == ANSWERS:
            asyncio.get_running_loop().call_soon(gate.hold)  # where something is waited for
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body"})

    return serving_hypercorn(app)


def test_a_request_begins_when_it_came_though_the_loop_was_held() -> None:
    a_request_begins_when_it_came(under_hypercorn, *HOOKS)


def test_a_request_behind_another_on_its_connection_does_not_wait_for_the_loop() -> None:
    what_is_behind_another_does_not_wait(under_hypercorn, *HOOKS)


def test_a_request_ends_with_its_answer_though_its_connection_closes_later() -> None:
    gate = Gate()
    with hooked(*HOOKS) as spans, under_hypercorn(gate) as url:
        with connected(url) as client:
            ask(client, ANSWERS)
            assert b" 200 " in read_all(client)
            gate.open(monotonic_ns() + HELD_NS)

        (span,) = requests_to(spans, ANSWERS)
        assert span.ended_ns < gate.opened_ns
