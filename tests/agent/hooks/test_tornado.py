"""The hook of Tornado, with its own server."""

import asyncio
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode, format_trace_id, get_current_span

from latencytrace.agent.hooks import tornado
from latencytrace.agent.hooks.tornado import TornadoHook
from latencytrace.agent.toolkit.streaming import MadeTokens
from latencytrace.model import semconv
from latencytrace.model.packed import unpack_token_times
from tests.support.agent.hooked import Spans, interval_stages
from tests.support.servers.serving import Answer, get, running

web = pytest.importorskip("tornado.web")
netutil = pytest.importorskip("tornado.netutil")
httpserver = pytest.importorskip("tornado.httpserver")
websocket = pytest.importorskip("tornado.websocket")

HOOKS = (TornadoHook,)
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


class Item(web.RequestHandler):  # type: ignore[misc,name-defined]  # it has no types here
    """Answers at once."""

    async def get(self, item: str) -> None:
        """Answer."""
        await asyncio.sleep(0)
        current = get_current_span().get_span_context()
        self.write(f"item {item} of {format_trace_id(current.trace_id)}")


class Broken(web.RequestHandler):  # type: ignore[misc,name-defined]
    """Fails, or says that there is nothing."""

    def get(self) -> None:
        """Answer."""
        if self.get_argument("missing", None):
            raise web.HTTPError(404)
        raise LookupError("a secret")


class Finished(web.RequestHandler):  # type: ignore[misc,name-defined]
    """Has answered before the rest of it could run."""

    def prepare(self) -> None:
        """Answer."""
        self.write("done")
        raise web.Finish


class Tokens(web.RequestHandler):  # type: ignore[misc,name-defined]
    """Streams what a model makes."""

    async def get(self) -> None:
        """Answer."""
        made = MadeTokens()
        for _ in range(3):
            made.add()
            self.write("x")
            await self.flush()


class Talk(websocket.WebSocketHandler):  # type: ignore[misc,name-defined]
    """Says in which trace it is."""

    def open(self) -> None:
        """Answer."""
        current = get_current_span().get_span_context()
        self.write_message(format_trace_id(current.trace_id))


def answers(*paths: str, **headers: str) -> list[Answer]:
    """What an application answers, whose errors nobody needs to read."""
    application = web.Application(
        [
            (r"/things/(\w+)", Item),
            (r"/items/(\d+)", Item),
            ("/broken", Broken),
            ("/finished", Finished),
            ("/tokens", Tokens),
        ],
        log_function=lambda _: None,
    )
    (listener,) = netutil.bind_sockets(0, "127.0.0.1")

    async def serve(stopped: asyncio.Event) -> None:
        server: Any = httpserver.HTTPServer(application)
        server.add_sockets([listener])
        await stopped.wait()
        server.stop()
        await server.close_all_connections()

    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with running(serve):
        return [get(f"{url}{path}", **headers) for path in paths]


def test_a_request_is_one_server_span_in_the_trace_of_its_caller(spans: Spans) -> None:
    (answer,) = answers("/items/7?prompt=secret", traceparent=PARENT)

    spans.wait_for(1)
    assert answer.text == f"item 7 of {TRACE}"
    assert (spans.only.name, spans.only.kind) == (r"GET /items/(\d+)", SpanKind.SERVER)
    noted = spans.only.attributes
    assert noted[semconv.HTTP_RESPONSE_STATUS_CODE] == 200
    assert noted[semconv.URL_PATH] == "/items/7"
    assert "secret" not in repr(dict(noted))
    assert "network" in interval_stages(spans.only)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_errors_are_the_servers_own_or_the_callers(
    spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    broken, missing = answers("/broken", "/broken?missing=1")

    spans.wait_for(2)
    assert (broken.status, missing.status) == (500, 404)
    assert caplog.records
    failed, absent = sorted(spans.all, key=lambda span: span.start_time or 0)
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert absent.status.status_code is StatusCode.UNSET


def test_a_handler_of_several_routes_is_named_by_the_one_that_was_asked_for(spans: Spans) -> None:
    answers("/items/7", "/things/7")

    spans.wait_for(2)
    assert sorted(spans.names) == [r"GET /items/(\d+)", r"GET /things/(\w+)"]


def test_a_handler_that_ends_early_has_not_failed(spans: Spans) -> None:
    (answer,) = answers("/finished")

    spans.wait_for(1)
    assert (answer.status, answer.text) == (200, "done")
    assert spans.only.status.status_code is StatusCode.UNSET
    assert semconv.ERROR_TYPE not in spans.only.attributes


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nothing_is_kept_of_a_request_that_has_ended(
    spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    answers("/items/7", "/broken")

    spans.wait_for(2)
    assert caplog.records
    assert not tornado._requests


def test_a_stream_tells_when_its_tokens_left(spans: Spans) -> None:
    (answer,) = answers("/tokens")

    spans.wait_for(1)
    assert answer.text == "xxx"
    times = unpack_token_times(str(spans.only.attributes[semconv.TOKEN_TIMES]), 0)
    assert len(times.lengths_ns) == 2


def test_a_page_that_is_asked_for_as_a_websocket_is_a_request(spans: Spans) -> None:
    (answer,) = answers("/items/7", Upgrade="websocket")

    spans.wait_for(1)
    assert answer.status == 200
    assert spans.only.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 200


def test_a_websocket_is_no_request_but_belongs_to_who_opened_it(spans: Spans) -> None:
    application = web.Application([("/talk", Talk)], log_function=lambda _: None)
    (listener,) = netutil.bind_sockets(0, "127.0.0.1")
    said: list[Any] = []

    async def talk() -> None:
        server: Any = httpserver.HTTPServer(application)
        server.add_sockets([listener])
        request = httpclient.HTTPRequest(
            f"ws://127.0.0.1:{listener.getsockname()[1]}/talk", headers={"traceparent": PARENT}
        )
        connection = await websocket.websocket_connect(request)
        said.append(await connection.read_message())
        connection.close()
        server.stop()
        await server.close_all_connections()

    httpclient = pytest.importorskip("tornado.httpclient")
    asyncio.run(talk())

    assert said == [TRACE]
    assert spans.all == []
