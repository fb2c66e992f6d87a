"""Requests that lie in their socket while hypercorn's event loop is held."""

from contextlib import AbstractContextManager
from typing import Any

import hypercorn.app_wrappers
import hypercorn.asyncio.tcp_server
import hypercorn.protocol.h11  # noqa: F401

from latencytrace.agent.hooks.asgi import AsgiHook
from latencytrace.agent.hooks.event_loop import EventLoopHook
from latencytrace.agent.hooks.hypercorn import HypercornHook
from tests.support.agent.held import (
    HOLDS,
    Gate,
    a_request_begins_when_it_came,
    what_is_behind_another_does_not_wait,
)
from tests.support.servers.serving import serving_hypercorn

HOOKS = (AsgiHook, EventLoopHook, HypercornHook)


def under_hypercorn(gate: Gate) -> AbstractContextManager[str]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            return
        if scope["path"] == HOLDS:
            gate.hold()
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body"})

    return serving_hypercorn(app)


def test_a_request_begins_when_it_came_though_the_loop_was_held() -> None:
    a_request_begins_when_it_came(under_hypercorn, *HOOKS)


def test_a_request_behind_another_on_its_connection_does_not_wait_for_the_loop() -> None:
    what_is_behind_another_does_not_wait(under_hypercorn, *HOOKS)
