"""The hook of websockets, both ends, of asyncio and of threads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import websockets.asyncio.client
import websockets.asyncio.server
import websockets.sync.client
import websockets.sync.server
from opentelemetry.trace import SpanKind, get_current_span

from latencytrace.agent.hooks.websockets import WebsocketsHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans

HOOKS = (WebsocketsHook,)


@contextmanager
def serving(seen: list[str]) -> Iterator[str]:
    """A server that notes which trace its handler runs in."""

    def handle(connection: websockets.sync.server.ServerConnection) -> None:
        for message in connection:
            context = get_current_span().get_span_context()
            seen.append(format(context.trace_id, "032x"))
            connection.send(message)

    with websockets.sync.server.serve(handle, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/path?secret=1"
        finally:
            server.shutdown()
            thread.join()


def test_a_handshake_is_a_span_and_its_handler_is_in_the_same_trace(spans: Spans) -> None:
    seen: list[str] = []

    with serving(seen) as address:
        headers = {"x-own": "kept"}
        with websockets.sync.client.connect(
            address, proxy=None, additional_headers=headers
        ) as client:
            client.send("message")
            client.recv(10)
            told = client.request.headers if client.request else {}

    assert spans.only.kind is SpanKind.CLIENT
    assert spans.of(Stage.NETWORK) == spans.all
    assert seen == [format(spans.only.trace_id, "032x")]
    assert told["x-own"] == "kept"
    assert spans.only.attributes[semconv.URL_PATH] == "/path"


def test_each_connection_goes_on_with_its_own_trace(spans: Spans) -> None:
    seen: list[str] = []

    with serving(seen) as address:
        for _ in range(2):
            with websockets.sync.client.connect(address, proxy=None) as client:
                client.send("message")
                client.recv(10)

    assert seen == [format(span.trace_id, "032x") for span in spans.all]
    assert len(set(seen)) == 2


def test_a_handshake_that_fails_raises_as_without_us_and_is_noted(spans: Spans) -> None:
    def refuse(connection: websockets.sync.server.ServerConnection, _: object) -> object:
        return connection.respond(403, "no")

    with websockets.sync.server.serve(
        lambda _: None,
        "127.0.0.1",
        0,
        process_request=refuse,  # type: ignore[arg-type]  # of a response's type
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        with pytest.raises(websockets.exceptions.InvalidStatus):
            websockets.sync.client.connect(address, proxy=None)
        server.shutdown()
        thread.join()

    assert spans.only.attributes[semconv.ERROR_TYPE] == "InvalidStatus"
