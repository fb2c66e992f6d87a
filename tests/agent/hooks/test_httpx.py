"""The hook of `httpx`, against real servers."""

import asyncio
import gc
import inspect
import logging
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import pairwise
from typing import Any

import fastapi
import httpx
import httpx2
import pytest
from fastapi.responses import PlainTextResponse, RedirectResponse, StreamingResponse
from opentelemetry.instrumentation.utils import is_http_instrumentation_enabled
from opentelemetry.trace import INVALID_SPAN, SpanKind, StatusCode, get_current_span

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.hooks.httpx import HttpxHook
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.costs import apart
from latencytrace.model import Stage, semconv
from latencytrace.model.packed import unpack_named
from tests.support.agent.hooked import Spans, attribute_text, hooked
from tests.support.agent.receiving import TracedProgram
from tests.support.servers.nowhere import NOWHERE
from tests.support.servers.serving import serving

HOOKS = (HttpxHook,)
PAUSE_S = 0.05
PARTS = 3
STEPS = 6  # connect, send headers and body, receive headers and body, close
BEGIN_AND_END = 2
sent_ns: list[int] = []  # the latest times of `/parts`, each before its part is sent


def application() -> fastapi.FastAPI:
    app = fastapi.FastAPI()

    @app.get("/")
    async def headers(request: fastapi.Request) -> list[str]:
        return request.headers.getlist("traceparent")

    @app.get("/moved")
    async def moved() -> RedirectResponse:
        return RedirectResponse("/")

    @app.get("/missing")
    async def missing() -> PlainTextResponse:
        return PlainTextResponse("no", 404)

    @app.get("/parts")
    async def parts() -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            sent_ns.clear()
            for _ in range(PARTS):
                await asyncio.sleep(PAUSE_S)
                sent_ns.append(monotonic_ns())
                yield b"."

        return StreamingResponse(body())

    @app.get("/slow")
    async def slow() -> None:
        await asyncio.sleep(60)

    return app


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(application(), timeout_graceful_shutdown=1) as url:
        yield url


def fetched(url: str) -> httpx.Response:
    with httpx.Client(trust_env=False) as client:
        return client.get(url)


def fetched_async(url: str) -> httpx.Response:
    async def main() -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False) as client:
            return await client.get(url)

    return asyncio.run(main())


both = pytest.mark.parametrize("fetch", [fetched, fetched_async], ids=["sync", "async"])
Fetch = Callable[[str], httpx.Response]


@both
def test_an_exchange_is_one_client_span_of_the_network(
    spans: Spans, url: str, fetch: Fetch
) -> None:
    fetch(f"{url}/?prompt=secret")

    assert (spans.only.name, spans.only.kind) == ("GET", SpanKind.CLIENT)
    noted = dict(spans.only.attributes)
    noted.pop(semconv.NETWORK_PHASES)
    assert noted == {
        semconv.STAGE: Stage.NETWORK,
        semconv.HTTP_REQUEST_METHOD: "GET",
        semconv.HTTP_RESPONSE_STATUS_CODE: 200,
        semconv.SERVER_ADDRESS: "127.0.0.1",
        semconv.SERVER_PORT: int(url.rpartition(":")[2]),
        semconv.URL_SCHEME: "http",
        semconv.URL_PATH: "/",
    }
    assert "secret" not in attribute_text(spans)


@both
def test_what_the_exchange_did_when_is_told(spans: Spans, url: str, fetch: Fetch) -> None:
    fetch(f"{url}/parts")

    packed = str(spans.only.attributes[semconv.NETWORK_PHASES])
    told = list(unpack_named(packed, spans.only.started_ns))
    assert [phase for phase, _, _ in told] == ["connect", "send", "wait", "receive"]
    assert all(before[2] <= after[1] for before, after in pairwise(told))
    assert told[-1][2] >= sent_ns[-1]


@both
def test_each_step_of_a_connection_costs_something_also_one_that_is_not_told(
    url: str, fetch: Fetch
) -> None:
    with apart() as made, hooked(HttpxHook):
        fetch(f"{url}/parts")

    steps = [cost.calls for cost in made if cost.calls > 1]  # a call is one
    assert len(steps) == BEGIN_AND_END
    assert steps == [STEPS] * BEGIN_AND_END


@pytest.mark.usefixtures("spans")
def test_a_listener_of_the_programs_own_hears_what_it_heard_before(url: str) -> None:
    heard: list[str] = []
    extensions = {"trace": lambda event, _: heard.append(event)}
    with httpx.Client(trust_env=False) as client:
        request = client.build_request("GET", url, extensions=extensions)
        client.send(request)

    assert "http11.send_request_headers.started" in heard
    assert request.extensions["trace"] is extensions["trace"]


def phases_of(span: RecordedSpan) -> list[str]:
    packed = str(span.attributes[semconv.NETWORK_PHASES])
    return [phase for phase, _, _ in unpack_named(packed, span.started_ns)]


@both
def test_phases_are_noted_and_logged_where_a_program_logs_what_httpcore_does(
    spans: Spans, url: str, fetch: Fetch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "httpcore"):
        fetch(url)

    assert phases_of(spans.only) == ["connect", "send", "wait", "receive"]
    assert "receive_response_headers.started" in caplog.text
    assert "send_request_headers.complete" in caplog.text


def test_phases_are_noted_beside_a_listener_of_the_programs_own(spans: Spans, url: str) -> None:
    with httpx.Client(trust_env=False) as client:
        client.get(url, extensions={"trace": lambda *_: None})

    assert phases_of(spans.only) == ["connect", "send", "wait", "receive"]


def test_a_kept_connection_is_not_connected_again(spans: Spans, url: str) -> None:
    with httpx.Client(trust_env=False) as client:
        client.get(url)
        client.get(url)

    assert [phases_of(span) for span in spans.all] == [
        ["connect", "send", "wait", "receive"],
        ["send", "wait", "receive"],
    ]


@pytest.mark.usefixtures("spans")
def test_an_asynchronous_listener_of_the_programs_own_is_awaited(url: str) -> None:
    heard: list[str] = []

    async def listen(event: str, _: object) -> None:
        await asyncio.sleep(0)
        heard.append(event)

    async def main() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.get(url, extensions={"trace": listen})

    asyncio.run(main())

    assert "http11.receive_response_headers.complete" in heard


@both
def test_the_server_gets_one_parent_and_it_is_the_span(
    spans: Spans, url: str, fetch: Fetch
) -> None:
    (traceparent,) = fetch(url).json()

    assert traceparent == f"00-{spans.only.trace_id:032x}-{spans.only.span_id:016x}-03"


@both
def test_an_exchange_lasts_until_the_last_byte_of_the_body(
    spans: Spans, url: str, fetch: Fetch
) -> None:
    assert fetch(f"{url}/parts").text == "." * PARTS

    assert spans.only.ended_ns >= sent_ns[-1]


@both
def test_an_answer_that_is_an_error_is_noted(spans: Spans, url: str, fetch: Fetch) -> None:
    fetch(f"{url}/missing")

    assert spans.only.attributes[semconv.ERROR_TYPE] == "404"
    assert spans.only.status.status_code is StatusCode.ERROR


@both
def test_what_httpx_raises_passes_through(spans: Spans, fetch: Fetch) -> None:
    with pytest.raises(httpx.ConnectError):
        fetch(NOWHERE)

    assert spans.only.attributes[semconv.ERROR_TYPE] == "ConnectError"


@both
def test_no_exchange_is_left_current(spans: Spans, url: str, fetch: Fetch) -> None:
    fetch(url)

    assert get_current_span() is INVALID_SPAN
    assert len(spans.all) == 1


def test_each_step_of_a_redirect_is_an_exchange_with_a_parent_of_its_own(
    spans: Spans, url: str
) -> None:
    with httpx.Client(trust_env=False, follow_redirects=True) as client:
        (traceparent,) = client.get(f"{url}/moved").json()

    moved, last = spans.all
    assert (moved.attributes[semconv.HTTP_RESPONSE_STATUS_CODE], traceparent.split("-")[2]) == (
        307,
        f"{last.span_id:016x}",
    )


def test_an_exchange_that_times_out_is_an_error(spans: Spans, url: str) -> None:
    with (
        httpx.Client(trust_env=False, timeout=httpx.Timeout(60, read=PAUSE_S)) as client,
        pytest.raises(httpx.ReadTimeout),
    ):
        client.get(f"{url}/slow")

    assert spans.only.attributes[semconv.ERROR_TYPE] == "ReadTimeout"


def test_an_exchange_that_is_cancelled_ends_as_cancelled(spans: Spans, url: str) -> None:
    async def main() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            await asyncio.wait_for(client.get(f"{url}/slow"), PAUSE_S)

    with pytest.raises(TimeoutError):
        asyncio.run(main())

    assert spans.only.attributes[semconv.CANCELLED] is True


# --- streams


def test_a_stream_is_open_until_its_last_byte(spans: Spans, url: str) -> None:
    with (
        httpx.Client(trust_env=False) as client,
        client.stream("GET", f"{url}/parts") as response,
    ):
        body = response.iter_raw(1)
        next(body)
        open_after_the_first = not spans.all
        rest = b"".join(body)
        ended_with_the_last = len(spans.all) == 1

    assert (open_after_the_first, ended_with_the_last) == (True, True)
    assert len(rest) == PARTS - 1
    assert semconv.CANCELLED not in spans.only.attributes


def test_a_stream_that_is_left_half_way_ends_when_it_is_closed(spans: Spans, url: str) -> None:
    with httpx.Client(trust_env=False) as client:
        with client.stream("GET", f"{url}/parts") as response:
            next(response.iter_raw(1))

        assert len(spans.all) == 1


def test_an_async_stream_that_is_left_half_way_ends_when_it_is_closed(
    spans: Spans, url: str
) -> None:
    async def main() -> None:
        async with (
            httpx.AsyncClient(trust_env=False) as client,
            client.stream("GET", f"{url}/parts") as response,
        ):
            async for _ in response.aiter_raw(1):
                break

    asyncio.run(main())

    assert len(spans.all) == 1


def test_a_stream_that_nobody_reads_ends_when_it_is_closed(spans: Spans, url: str) -> None:
    with httpx.Client(trust_env=False) as client, client.stream("GET", f"{url}/parts"):
        assert spans.all == []

    assert len(spans.all) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_stream_that_is_dropped_ends(spans: Spans, url: str) -> None:
    client = httpx.Client(trust_env=False)
    response = client.send(client.build_request("GET", f"{url}/parts"), stream=True)

    del response
    gc.collect()

    client.close()
    assert len(spans.all) == 1


def test_a_body_that_breaks_off_fails_the_exchange(spans: Spans) -> None:
    async def torn(scope: object, receive: object, send: Callable[..., object]) -> None:
        headers = [(b"content-length", b"100")]
        await awaited(send({"type": "http.response.start", "status": 200, "headers": headers}))
        await awaited(send({"type": "http.response.body", "body": b".", "more_body": True}))
        raise RuntimeError

    with serving(torn, lifespan="off") as url, pytest.raises(httpx.RemoteProtocolError):
        fetched(url)

    assert spans.only.attributes[semconv.ERROR_TYPE] == "RemoteProtocolError"


async def awaited(result: object) -> None:
    assert inspect.isawaitable(result)
    await result


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_a_response_keeps_what_its_library_gives_it(spans: Spans, url: str, library: Any) -> None:
    with library.Client(trust_env=False) as client, client.stream("GET", url) as response:
        response.read()

    assert len(spans.all) == 1
    assert response.elapsed.total_seconds() > 0
    assert response.is_closed
    assert response.is_stream_consumed
    assert isinstance(response.stream, library.SyncByteStream)


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
@pytest.mark.usefixtures("spans")
def test_a_body_that_was_streamed_tells_how_long_it_took(url: str, library: Any) -> None:
    async def streamed() -> Any:
        async with (
            library.AsyncClient(trust_env=False) as client,
            client.stream("GET", url) as response,
        ):
            async for _ in response.aiter_raw():
                pass
        return response

    assert asyncio.run(streamed()).elapsed.total_seconds() > 0


def test_a_transport_without_a_network_is_an_exchange_too(spans: Spans) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text="ok"))

    with httpx.Client(transport=transport) as client:
        response = client.get("http://nowhere/")

    assert response.text == "ok"
    assert len(spans.all) == 1


def test_what_an_application_calls_that_stands_for_a_server_is_traced(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, told = "opentelemetry.instrumentation.httpx", list[bool]()
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))

    def application(_: httpx.Request) -> httpx.Response:
        told.append(is_http_instrumentation_enabled())
        return httpx.Response(200)

    with httpx.Client(transport=httpx.MockTransport(application)) as client:
        client.get("http://nowhere/")

    assert told == [True]
    assert len(spans.all) == 1


def test_the_client_and_its_traced_server_are_one_trace(agent: TracedProgram) -> None:
    with serving(application()) as url:
        fetched(f"{url}/parts")

    client, server = agent.one("GET"), agent.one("GET /parts")
    assert (server.trace_id, server.parent_id) == (client.trace_id, client.span_id)
    assert client.stage == Stage.NETWORK
    # The last byte may be read before the server notes that it has sent it.
    assert client.start_ns <= server.start_ns <= client.end_ns
