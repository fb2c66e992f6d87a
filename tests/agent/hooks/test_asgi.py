"""The hook of ASGI applications: FastAPI, Starlette and plain ones under uvicorn."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping, Sequence
from http.client import IncompleteRead
from typing import Any

import fastapi
import httpx
import pytest
import uvicorn
import websockets.sync.client
from fastapi.responses import StreamingResponse
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode, get_current_span
from starlette.applications import Starlette
from starlette.background import BackgroundTask, BackgroundTasks
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

import latencytrace
from latencytrace.agent.clock import wall_ns
from latencytrace.agent.hooks.asgi import time_application
from latencytrace.agent.timing.runtime_gaps import RESULT
from latencytrace.model import Stage, semconv
from latencytrace.model.packed import unpack_named
from tests.support.agent.hooked import Spans
from tests.support.agent.receiving import ReceivedSpan, TracedProgram
from tests.support.agent.waiting_requests import let_time_pass
from tests.support.servers.serving import drain, get, raw_get, raw_socket, serving
from tests.support.waiting import PATIENCE_S, until

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
PAUSE_S = 0.05
MEGABYTE = b"x" * 1_000_000

Message = MutableMapping[str, Any]


def request_spans(agent: TracedProgram) -> list[ReceivedSpan]:
    """The SERVER span, once it is there; no other may have come."""
    until(lambda: _servers(agent.spans()))
    found = _servers(agent.spans())
    assert len(found) == 1, [(span.scope, span.name) for span in found]
    return found


def _servers(spans: list[ReceivedSpan]) -> list[ReceivedSpan]:
    return [span for span in spans if span.kind is SpanKind.SERVER]


def application() -> fastapi.FastAPI:  # noqa: C901 - one function a route
    app = fastapi.FastAPI()

    @app.get("/items/{item}")
    async def item(item: int) -> dict[str, int]:
        return {"item": item}

    @app.get("/parts")
    async def parts() -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            for _ in range(10):
                await asyncio.sleep(PAUSE_S / 10)
                yield b"."

        return StreamingResponse(body())

    @app.get("/broken")
    async def broken() -> None:
        raise LookupError("a secret")

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            while True:
                await asyncio.sleep(0.001)
                yield b"."

        return StreamingResponse(body())

    @app.post("/upload")
    async def upload(request: Request) -> int:
        return len(await request.body())

    return app


def test_a_request_is_one_server_span_named_after_its_route(agent: TracedProgram) -> None:
    with serving(application()) as url:
        get(f"{url}/items/7?prompt=secret")

    (request,) = request_spans(agent)
    assert request.name == "GET /items/{item}"
    assert request.status is StatusCode.UNSET
    assert request.attributes[semconv.HTTP_ROUTE] == "/items/{item}"
    assert request.attributes[semconv.URL_PATH] == "/items/7"
    assert request.attributes[semconv.HTTP_REQUEST_METHOD] == "GET"
    assert request.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 200
    assert request.attributes[semconv.SERVER_ADDRESS] == "127.0.0.1"
    assert semconv.STAGE not in request.attributes
    assert semconv.CANCELLED not in request.attributes
    assert "secret" not in repr(request.attributes)


def test_the_time_since_a_front_proxy_took_the_request_is_noted(agent: TracedProgram) -> None:
    with serving(application()) as url:
        get(f"{url}/items/7", **{"X-Request-Start": f"t={time.time_ns() // 1000}"})

    (span,) = request_spans(agent)
    assert 0 <= int(str(span.attributes[semconv.QUEUED_NS])) < 60_000_000_000


def test_a_path_without_a_route_names_no_route(agent: TracedProgram) -> None:
    with serving(application()) as url:
        get(f"{url}/nowhere/17")

    (request,) = request_spans(agent)
    assert request.name == "GET"
    assert request.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 404
    assert semconv.HTTP_ROUTE not in request.attributes


def test_a_streamed_answer_is_one_span_to_its_last_byte(agent: TracedProgram) -> None:
    with serving(application()) as url:
        get(f"{url}/parts")

    (request,) = request_spans(agent)
    assert request.duration_ns >= PAUSE_S * 1e9
    inner = [span for span in agent.spans() if span.kind is SpanKind.INTERNAL]
    assert [span.name for span in inner if span.stage != Stage.LOAD] == []
    assert Stage.RESPOND in {interval.stage for interval in request.intervals}


def test_the_time_after_the_last_byte_is_no_part_of_the_request(agent: TracedProgram) -> None:
    ran = threading.Event()
    began_ns = 0

    def after() -> None:
        nonlocal began_ns
        began_ns = wall_ns()
        ran.set()

    app = fastapi.FastAPI()
    app.add_api_route("/", lambda: PlainTextResponse("done", background=BackgroundTask(after)))
    with serving(app) as url:
        get(f"{url}/")
        assert ran.wait(PATIENCE_S)

    (request,) = request_spans(agent)
    assert request.end_ns <= began_ns


def test_each_background_task_and_what_it_does_belong_to_the_request(
    agent: TracedProgram,
) -> None:
    async def after() -> None:
        with latencytrace.stage("postprocess"):
            await asyncio.sleep(0)

    def fails() -> None:
        raise LookupError("a secret")

    tasks = BackgroundTasks([BackgroundTask(after), BackgroundTask(fails)])
    app = fastapi.FastAPI()
    app.add_api_route("/", lambda: PlainTextResponse("done", background=tasks))
    with serving(app) as url:
        get(f"{url}/")

    request, stage = agent.one("GET /"), agent.one("postprocess")
    named = (
        f"background {test_each_background_task_and_what_it_does_belong_to_the_request.__name__}"
    )
    first, second = (agent.one(f"{named}.<locals>.{name}") for name in ("after", "fails"))
    assert stage.parent_id == first.span_id
    assert first.parent_id == second.parent_id == request.span_id
    assert request.end_ns <= first.start_ns <= stage.end_ns <= first.end_ns <= second.start_ns
    assert second.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert request.status is StatusCode.UNSET


def test_the_wait_for_a_slow_client_is_respond(agent: TracedProgram) -> None:
    second_waits = threading.Event()
    app = fastapi.FastAPI()

    @app.get("/large")
    async def large() -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            yield MEGABYTE
            asyncio.get_running_loop().call_soon(second_waits.set)  # once nothing else is done
            yield MEGABYTE

        return StreamingResponse(body())

    with serving(app) as url:
        with raw_get(url, "/large") as client:
            assert second_waits.wait(PATIENCE_S)
            time.sleep(PAUSE_S)
            drain(client)
        (request,) = request_spans(agent)

    assert request.interval_ns(Stage.RESPOND) >= PAUSE_S * 1e9
    assert semconv.CANCELLED not in request.attributes


def test_the_wait_for_a_slow_upload_is_network(agent: TracedProgram) -> None:
    half_is_read = threading.Event()
    app = fastapi.FastAPI()

    @app.post("/upload")
    async def upload(request: Request) -> None:
        async for _ in request.stream():
            asyncio.get_running_loop().call_soon(half_is_read.set)  # once it waits for more

    with serving(app) as url:
        with raw_socket(url) as client:
            client.sendall(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab")
            assert half_is_read.wait(PATIENCE_S)
            time.sleep(PAUSE_S)
            client.sendall(b"cd")
            client.recv(1)
        (request,) = request_spans(agent)

    assert request.interval_ns(Stage.NETWORK) >= PAUSE_S * 1e9


def test_a_client_that_leaves_in_mid_stream_ends_its_request_as_cancelled(
    agent: TracedProgram,
) -> None:
    with serving(application()) as url:
        with raw_get(url, "/endless") as client:
            client.recv(1)
        (request,) = request_spans(agent)

    assert request.attributes[semconv.CANCELLED] is True


@pytest.mark.parametrize("is_sync", [False, True])
@pytest.mark.parametrize("is_behind", [False, True])
def test_a_background_task_is_no_part_of_a_request_whose_caller_left(
    agent: TracedProgram, *, is_sync: bool, is_behind: bool
) -> None:
    app, ran = fastapi.FastAPI(), threading.Event()
    worked_ns, began_ns = [0], [0]

    async def work() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.001)
            yield b"."

    def blocking_work() -> Iterator[bytes]:
        while True:
            yield b"."
            time.sleep(PAUSE_S)  # in which the caller leaves
            worked_ns.append(wall_ns())

    async def after() -> None:
        began_ns.append(wall_ns())
        with latencytrace.stage("postprocess"):
            await asyncio.sleep(PAUSE_S)
        ran.set()

    @app.get("/")
    async def stream(tasks: fastapi.BackgroundTasks) -> StreamingResponse:
        tasks.add_task(after)
        return StreamingResponse(blocking_work() if is_sync else work())

    if is_behind:
        app.add_middleware(BaseHTTPMiddleware, dispatch=_passed_on)
    with serving(app) as url:
        with raw_get(url, "/") as client:
            client.recv(1)
        assert ran.wait(PATIENCE_S)
        (request,) = request_spans(agent)

    assert worked_ns[-1] <= request.end_ns <= began_ns[-1]
    assert request.attributes[semconv.CANCELLED] is True
    assert agent.one("postprocess").trace_id == request.trace_id


async def _passed_on(request: Request, call_next: RequestResponseEndpoint) -> Response:
    return await call_next(request)


def test_an_endpoint_that_raises_is_a_failed_request(agent: TracedProgram) -> None:
    with serving(application()) as url:
        answer = get(f"{url}/broken")

    (request,) = request_spans(agent)
    assert answer.status == 500
    assert request.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 500
    assert request.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert request.status is StatusCode.ERROR
    assert "secret" not in repr(request)


def test_an_answer_that_says_that_the_server_failed_ends_its_request(agent: TracedProgram) -> None:
    began_ns: list[int] = []

    async def failed(_: Request) -> Response:
        return PlainTextResponse(
            "no", 502, background=BackgroundTask(lambda: began_ns.append(wall_ns()))
        )

    with serving(Starlette(routes=[Route("/", failed)])) as url:
        assert get(f"{url}/").status == 502
        (request,) = request_spans(agent)

    assert request.attributes[semconv.ERROR_TYPE] == "502"
    assert [request.end_ns <= at_ns for at_ns in began_ns] == [True]


def test_work_that_is_cancelled_behind_a_failed_answer_cancels_no_request(
    agent: TracedProgram,
) -> None:
    async def application(scope: Message, receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 503, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})
        raise asyncio.CancelledError

    async def call() -> None:
        scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
        await Starlette(routes=[Mount("/", application)])(scope, None, nothing)  # type: ignore[arg-type]

    async def nothing(_: Message) -> None:
        """Send it to nobody."""

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(call())

    (request,) = request_spans(agent)
    assert request.attributes[semconv.ERROR_TYPE] == "503"
    assert semconv.CANCELLED not in request.attributes


def test_what_an_endpoint_raises_reaches_the_server_unchanged(agent: TracedProgram) -> None:
    raised = LookupError("a secret")

    async def broken(_: Request) -> Response:
        raise raised

    with pytest.raises(LookupError) as caught:
        TestClient(Starlette(routes=[Route("/", broken)])).get("/")

    assert caught.value is raised
    assert len(request_spans(agent)) == 1


def test_a_stream_that_breaks_is_a_failed_request(agent: TracedProgram) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"."
        raise LookupError("a secret")

    app = fastapi.FastAPI()
    app.add_api_route("/", lambda: StreamingResponse(body()))
    with serving(app) as url, pytest.raises(IncompleteRead):
        get(f"{url}/")

    (request,) = request_spans(agent)
    assert request.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert request.status is StatusCode.ERROR


def test_a_request_goes_on_in_its_callers_trace(agent: TracedProgram) -> None:
    with serving(application()) as url:
        get(f"{url}/items/1", traceparent=f"00-{TRACE}-{PARENT}-01")

    (request,) = request_spans(agent)
    assert (request.trace_id, request.parent_id) == (TRACE, PARENT)


def test_a_request_that_its_caller_does_not_sample_makes_no_span(agent: TracedProgram) -> None:
    with serving(application()) as url:
        get(f"{url}/items/1", traceparent=f"00-{TRACE}-{PARENT}-00")
        get(f"{url}/items/2")

    (request,) = request_spans(agent)
    assert request.attributes[semconv.URL_PATH] == "/items/2"


def test_fastapis_own_tracing_doubles_nothing(agent: TracedProgram) -> None:
    with serving(application()) as url:
        get(f"{url}/items/7")

    (request,) = request_spans(agent)
    assert request.scope == "latencytrace"
    assert {span.scope for span in agent.spans()} == {"latencytrace"}


def test_contribs_middleware_keeps_its_span_and_gets_no_second(agent: TracedProgram) -> None:
    app = application()
    FastAPIInstrumentor.instrument_app(app, exclude_spans=["send", "receive"])
    try:
        with serving(app) as url:
            get(f"{url}/items/7")
    finally:
        FastAPIInstrumentor.uninstrument_app(app)

    (request,) = request_spans(agent)
    assert request.scope == "opentelemetry.instrumentation.fastapi"


def test_contribs_instrumentation_of_every_application_doubles_nothing(
    agent: TracedProgram,
) -> None:
    instrumentor = FastAPIInstrumentor()
    instrumentor.instrument(exclude_spans=["send", "receive"])
    try:
        with serving(application_made_after_contrib()) as url:
            get(f"{url}/")
    finally:
        instrumentor.uninstrument()

    (request,) = request_spans(agent)
    assert request.scope == "opentelemetry.instrumentation.fastapi"


def application_made_after_contrib() -> Any:
    app = fastapi.FastAPI()
    app.add_api_route("/", lambda: "ok")
    return app


def test_the_route_of_a_mounted_application_has_its_mount(agent: TracedProgram) -> None:
    outer = fastapi.FastAPI()
    outer.mount("/shop", application())
    with serving(outer) as url:
        get(f"{url}/shop/items/7")

    (request,) = request_spans(agent)
    assert request.name == "GET /shop/items/{item}"


def test_the_route_of_an_included_router_has_its_prefix(agent: TracedProgram) -> None:
    router = fastapi.APIRouter()
    router.add_api_route("/items/{item}", lambda item: item)
    app = fastapi.FastAPI()
    app.include_router(router, prefix="/shop")
    with serving(app) as url:
        get(f"{url}/shop/items/7")

    (request,) = request_spans(agent)
    assert request.name == "GET /shop/items/{item}"


def test_a_root_path_is_no_part_of_the_route(agent: TracedProgram) -> None:
    with serving(application(), root_path="/proxied") as url:
        get(f"{url}/items/7")

    (request,) = request_spans(agent)
    assert request.name == "GET /items/{item}"


def test_starlettes_routes_name_its_requests(agent: TracedProgram) -> None:
    async def item(_: Request) -> Response:
        return PlainTextResponse("ok")

    app = Starlette(routes=[Mount("/shop", routes=[Route("/items/{item:int}", item)])])
    with serving(app) as url:
        get(f"{url}/shop/items/7")

    (request,) = request_spans(agent)
    assert request.name == "GET /shop/items/{item}"


def test_base_http_middleware_hides_neither_the_route_nor_the_end(agent: TracedProgram) -> None:
    async def dispatch(request: Request, call_next: RequestResponseEndpoint) -> Response:
        return await call_next(request)

    app = application()
    app.add_middleware(BaseHTTPMiddleware, dispatch=dispatch)
    with serving(app) as url:
        get(f"{url}/parts")

    (request,) = request_spans(agent)
    assert request.name == "GET /parts"
    assert request.duration_ns >= PAUSE_S * 1e9
    assert semconv.CANCELLED not in request.attributes


async def plain_application(scope: Message, receive: object, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"plain"})


def test_uvicorn_times_an_application_of_no_framework(agent: TracedProgram) -> None:
    with serving(plain_application) as url:
        answer = get(f"{url}/anything/17")

    (request,) = request_spans(agent)
    assert answer.text == "plain"
    assert request.name == "GET /anything/{id}"
    assert request.attributes[semconv.URL_PATH] == "/anything/17"


def test_uvicorns_configuration_keeps_the_programs_own_application(agent: TracedProgram) -> None:
    config = uvicorn.Config(plain_application, proxy_headers=False, log_config=None)

    config.load()

    assert agent.status.running
    assert config.loaded_app is plain_application


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_what_an_application_returns_is_uvicorns_to_reject(
    agent: TracedProgram, caplog: pytest.LogCaptureFixture, http: str
) -> None:
    async def returning(scope: Message, receive: object, send: Any) -> str:
        await plain_application(scope, receive, send)
        return "left over"

    with serving(returning, http=http) as url:
        get(f"{url}/anything")

    assert "should return None, but returned 'left over'" in caplog.text
    assert request_spans(agent)


@pytest.mark.filterwarnings("ignore")  # the first one is deprecated
@pytest.mark.parametrize("ws", ["websockets", "websockets-sansio", "wsproto"])
def test_what_a_websocket_does_is_in_its_callers_trace_without_a_framework(
    agent: TracedProgram, ws: str
) -> None:
    async def connected(scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            with latencytrace.stage("rerank"):
                await send({"type": "websocket.accept"})
            await send({"type": "websocket.close"})
            while (await receive())["type"] != "websocket.disconnect":
                pass

    with (
        serving(connected, ws=ws) as url,
        websockets.sync.client.connect(
            url.replace("http", "ws"),
            additional_headers={"traceparent": f"00-{TRACE}-{PARENT}-01"},
            proxy=None,
        ) as client,
        pytest.raises(websockets.exceptions.ConnectionClosedOK),
    ):
        client.recv()

    (rerank,) = agent.named("rerank")
    assert (rerank.trace_id, rerank.parent_id) == (TRACE, PARENT)


def test_an_application_of_no_framework_around_fastapi_doubles_nothing(
    agent: TracedProgram,
) -> None:
    inner = application()

    async def outer(scope: Message, receive: Any, send: Any) -> None:
        await inner(scope, receive, send)

    with serving(outer) as url:
        get(f"{url}/items/7")

    (request,) = request_spans(agent)
    assert request.name == "GET /items/{item}"


def test_the_lifespan_of_an_application_is_no_request(agent: TracedProgram) -> None:
    seen: list[str] = []

    async def app(
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Any,
    ) -> None:
        assert scope["type"] == "lifespan"
        for done in ("startup", "shutdown"):
            seen.append((await receive())["type"])
            await send({"type": f"lifespan.{done}.complete"})

    with serving(app, lifespan="on"):
        pass

    assert seen == ["lifespan.startup", "lifespan.shutdown"]
    assert agent.spans() == []


def test_the_first_token_is_the_first_though_the_last_comes_with_the_end_of_the_answer(
    agent: TracedProgram,
) -> None:
    sent_ns = list[int]()

    async def app(_: Message, receive: Any, send: Any) -> None:
        await receive()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for word in ("one", "two", "three"):
            event = b'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n' % word.encode()
            more = word != "three"
            await send({"type": "http.response.body", "body": event, "more_body": more})
            sent_ns.append(wall_ns())

    with serving(app, lifespan="off") as url:
        assert get(f"{url}/").text.count("data:") == 3

    (request,) = request_spans(agent)
    first_s = float(str(request.attributes[semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK]))
    assert request.start_ns + first_s * 1e9 <= sent_ns[0]
    assert request.attributes[semconv.TOKEN_TIMES] is not None


def said(
    app: fastapi.FastAPI,
    path: str,
    *messages: Message,
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> list[Message]:
    """What an application says over a WebSocket, as a server of an untraced client calls it."""
    sent = list[Message]()
    given = deque([{"type": "websocket.connect"}, *messages, {"type": "websocket.disconnect"}])

    async def receive() -> Message:
        await asyncio.sleep(0)
        return {"type": "websocket.receive", **given.popleft()}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": path, "query_string": b"", "headers": [*headers]}
    asyncio.run(app(scope, receive, send))
    return [message for message in sent if message["type"] == "websocket.send"]


def test_each_text_of_a_websocket_is_a_request_until_the_next_is_asked_for(
    agent: TracedProgram,
) -> None:
    app = fastapi.FastAPI()
    answered_ns = list[int]()

    @app.websocket("/rooms/{room}")
    async def chat(websocket: fastapi.WebSocket) -> None:
        await websocket.accept()
        async for text in websocket.iter_text():
            with latencytrace.stage("decode"):
                await websocket.send_text(f"{text} one")
            await websocket.send_text(f"{text} two")
            answered_ns.append(wall_ns())
            assert text != "bad"

    with pytest.raises(AssertionError, match="bad"):
        said(app, "/rooms/7", {"text": "first"}, {"text": "second"}, {"text": "bad"})

    first, second, bad = agent.named("WEBSOCKET /rooms/{room}", 3)
    stages = agent.named("decode", 3)
    assert [stage.parent_id for stage in stages] == [first.span_id, second.span_id, bad.span_id]
    assert len({first.trace_id, second.trace_id, bad.trace_id}) == 3
    assert first.kind is SpanKind.SERVER
    assert first.start_ns <= answered_ns[0] <= first.end_ns <= second.start_ns
    assert first.interval_ns(Stage.RESPOND) > 0
    assert 0 <= int(str(first.attributes[semconv.STREAMED_FIRST_BODY])) <= first.duration_ns
    assert bad.attributes[semconv.ERROR_TYPE] == "AssertionError"


def test_bytes_and_what_another_task_takes_of_a_websocket_are_no_requests(
    agent: TracedProgram,
) -> None:
    app = fastapi.FastAPI()

    @app.websocket("/sound")
    async def sound(websocket: fastapi.WebSocket) -> None:
        await websocket.accept()
        await websocket.send_bytes(await websocket.receive_bytes())
        text = await asyncio.create_task(websocket.receive_text())
        await websocket.send_text(text)

    answers = said(app, "/sound", {"bytes": b"\0"}, {"text": "enough"})

    assert [one.get("bytes") or one.get("text") for one in answers] == [b"\0", "enough"]
    assert agent.spans() == []


def test_what_a_traced_caller_says_over_a_websocket_belongs_to_its_trace(
    agent: TracedProgram,
) -> None:
    app = fastapi.FastAPI()

    @app.websocket("/echo")
    async def echo(websocket: fastapi.WebSocket) -> None:
        await websocket.accept()
        with latencytrace.stage("decode"):
            await websocket.send_text(await websocket.receive_text())

    caller = (b"traceparent", f"00-{'a' * 32}-{'b' * 16}-01".encode())
    said(app, "/echo", {"text": "hello"}, headers=[caller])

    (stage,) = agent.spans()
    assert (stage.trace_id, stage.parent_id) == ("a" * 32, "b" * 16)


def test_a_websocket_that_says_nothing_is_untouched(agent: TracedProgram) -> None:
    app = fastapi.FastAPI()

    @app.websocket("/echo")
    async def echo(websocket: fastapi.WebSocket) -> None:
        await websocket.accept()
        await websocket.close()

    assert said(app, "/echo") == []
    assert agent.spans() == []


def test_no_request_is_left_current_in_the_server(agent: TracedProgram) -> None:
    current = []

    async def before(request: Request, call_next: RequestResponseEndpoint) -> Response:
        return await call_next(request)

    app = application()
    app.add_middleware(BaseHTTPMiddleware, dispatch=before)

    async def main() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a") as client:
            await client.get("/items/1")
        current.append(get_current_span().is_recording())

    asyncio.run(main())

    assert current == [False]
    assert len(request_spans(agent)) == 1


def test_an_application_that_never_answers_ends_its_request(agent: TracedProgram) -> None:
    async def silent(scope: Message, receive: object, send: object) -> None:
        """Return without a word."""

    with serving(silent, lifespan="off") as url:
        get(f"{url}/")

    (request,) = request_spans(agent)
    assert semconv.HTTP_RESPONSE_STATUS_CODE not in request.attributes


def test_a_malformed_message_is_left_to_the_server(agent: TracedProgram) -> None:
    async def odd(scope: Message, receive: object, send: Any) -> None:
        await send({"type": "http.response.start"})

    async def main() -> None:
        transport = httpx.ASGITransport(Starlette(routes=[Mount("/", odd)]))
        async with httpx.AsyncClient(transport=transport, base_url="http://a") as client:
            await client.get("/")

    with pytest.raises(KeyError, match="status"):
        asyncio.run(main())

    assert len(request_spans(agent)) == 1


def test_a_request_that_contribs_middleware_times_through_us_has_its_route(
    agent: TracedProgram,
) -> None:
    async def item(_: Request) -> Response:
        return PlainTextResponse("ok")

    routes = [Mount("/shops/{shop}", routes=[Route("/items/{item:int}", item)])]
    with serving(
        Starlette(routes=routes, middleware=[Middleware(OpenTelemetryMiddleware)])
    ) as url:
        get(f"{url}/shops/one/items/7")

    (request,) = request_spans(agent)
    assert request.scope == "opentelemetry.instrumentation.asgi"
    assert request.name == "GET /shops/{shop}/items/{item}"
    assert request.attributes[semconv.HTTP_ROUTE] == "/shops/{shop}/items/{item}"


def test_what_a_request_waits_for_is_noted_on_the_span_of_contribs_middleware(
    agent: TracedProgram,
) -> None:
    async def work(_: Request) -> Response:
        is_done = asyncio.Event()

        async def finish() -> None:
            let_time_pass()
            is_done.set()

        finishes = asyncio.create_task(finish())
        await is_done.wait()
        await finishes
        return PlainTextResponse("ok")

    async def broken(_: Request) -> Response:
        raise LookupError

    routes = [Route("/work", work), Route("/broken", broken)]
    application = Starlette(routes=routes, middleware=[Middleware(OpenTelemetryMiddleware)])
    with serving(application) as url:
        for path in ("work", "broken", "work"):
            get(f"{url}/{path}")

    answered, failed = agent.named("GET /work", 2), agent.one("GET /broken")
    gaps = [unpack_named(str(one.attributes[semconv.RUNTIME_GAPS]), 0) for one in answered]
    assert {one.scope for one in answered} == {"opentelemetry.instrumentation.asgi"}
    # On a slow machine it may have waited for its turn, too.
    assert all(RESULT in {name for name, _, _ in of_one} for of_one in gaps)
    assert [one.attributes[semconv.CONCURRENCY] for one in answered] == [1, 1]
    assert semconv.RUNTIME_GAPS not in failed.attributes


def test_contribs_middleware_that_was_given_no_tracer_leaves_the_request_to_us(
    agent: TracedProgram,
) -> None:
    async def item(_: Request) -> Response:
        return PlainTextResponse("ok")

    off = Middleware(OpenTelemetryMiddleware, tracer_provider=NoOpTracerProvider())
    with serving(Starlette(routes=[Route("/items/{item:int}", item)], middleware=[off])) as url:
        get(f"{url}/items/7")

    (request,) = request_spans(agent)
    assert request.scope.startswith("latencytrace")
    assert request.name == "GET /items/{item}"


async def passing(request: Request, call_next: RequestResponseEndpoint) -> Response:
    return await call_next(request)


def test_a_stream_that_breaks_behind_base_http_middleware_has_failed(agent: TracedProgram) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"one"
        raise LookupError("a secret")

    app = fastapi.FastAPI()
    app.add_api_route("/", lambda: StreamingResponse(body()))
    app.add_middleware(BaseHTTPMiddleware, dispatch=passing)
    with serving(app) as url:
        get(url)

    (request,) = request_spans(agent)
    assert request.status is StatusCode.ERROR
    assert request.attributes[semconv.ERROR_TYPE] == "LookupError"


def test_what_runs_behind_base_http_middleware_after_an_answer_is_no_part_of_it(
    agent: TracedProgram,
) -> None:
    sent_before = threading.Event()

    async def after() -> None:
        sent_before.set()
        until(lambda: latencytrace.flush(PATIENCE_S) and _servers(agent.receiver.spans))
        raise LookupError("a secret")

    app = fastapi.FastAPI()
    app.add_api_route("/", lambda: PlainTextResponse("done", background=BackgroundTask(after)))
    app.add_middleware(BaseHTTPMiddleware, dispatch=passing)
    with serving(app) as url:
        get(url)
        assert sent_before.wait(PATIENCE_S)

    (request,) = request_spans(agent)
    assert request.status is StatusCode.UNSET
    assert semconv.ERROR_TYPE not in request.attributes


@pytest.mark.parametrize("kind", ["http", "websocket", "lifespan"])
def test_a_server_sees_what_an_application_returns(kind: str) -> None:
    async def application(_self: object, _scope: object, _receive: object, _send: object) -> str:
        return "which is wrong, and uvicorn says so"

    async def nothing(*_: object) -> dict[str, Any]:
        return {}

    timed = time_application(Spans().recorder, application)
    scope = {"type": kind, "method": "GET", "path": "/", "headers": []}

    assert asyncio.run(timed(None, scope, nothing, nothing)) is not None
