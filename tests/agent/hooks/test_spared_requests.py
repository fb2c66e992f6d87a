"""Requests that a budget or a control group spares, served by the real frameworks."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import fastapi
import flask
import httpx
import pytest
from fastapi.responses import StreamingResponse
from flask.testing import FlaskClient
from opentelemetry import propagate
from opentelemetry.trace import SpanKind, get_current_span
from starlette.background import BackgroundTask

import latencytrace
from latencytrace.agent.budget.detail import (
    FULL,
    LAST,
    SAMPLED,
    WITHOUT_GAPS,
    WITHOUT_INTERVALS,
    Detail,
)
from latencytrace.agent.clock import wall_ns
from latencytrace.agent.start import agent_status, recorder
from latencytrace.model import semconv
from tests.support.agent.receiving import ReceivedSpan, TracedProgram
from tests.support.servers.serving import get, raw_get, serving
from tests.support.waiting import until

after_ns: list[int] = []  # when the background task of `/endless` began
LOW = "00-" + "0" * 31 + "1-b7ad6b7169203331-01"  # kept by no step that samples
UNSAMPLED = "00-" + "f" * 32 + "-b7ad6b7169203331-00"


def application() -> fastapi.FastAPI:  # noqa: C901 - one function a route
    """Routes that call what is timed, another service, and nothing."""
    app = fastapi.FastAPI()

    @app.get("/work")
    async def work() -> dict[str, str]:
        with latencytrace.stage("rerank"):
            pass
        headers: dict[str, str] = {}
        propagate.inject(headers)
        return headers

    @app.get("/parts")
    async def parts() -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            for _ in range(5):
                yield b"data: {}\n\n"

        return StreamingResponse(body(), media_type="text/event-stream")

    @app.get("/queued")
    async def queued() -> str:
        ticket = latencytrace.enqueue()
        with latencytrace.batch([ticket], stage="forward"):
            return "done"

    @app.get("/fails")
    async def fails() -> None:
        raise fastapi.HTTPException(503)

    @app.get("/calls")
    async def calls(port: int) -> dict[str, str]:
        async with httpx.AsyncClient() as client:
            found: dict[str, str] = (await client.get(f"http://127.0.0.1:{port}/work")).json()
            return found

    async def after() -> None:
        after_ns.append(wall_ns())

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            while True:
                await asyncio.sleep(0.001)
                yield b"."

        return StreamingResponse(body(), background=BackgroundTask(after))

    return app


@pytest.fixture
def url() -> Iterator[str]:
    """An application under uvicorn."""
    after_ns.clear()
    with serving(application()) as found:
        yield found


@pytest.fixture
def detail(agent: TracedProgram) -> Detail:
    """The detail in which the agent traces."""
    return recorder().detail


def servers(agent: TracedProgram) -> list[ReceivedSpan]:
    return [span for span in agent.spans() if span.kind is SpanKind.SERVER]


def with_control(detail: Detail) -> None:
    """Put every request into the control group."""
    detail.control = 1 << 20
    detail.set_step(FULL)


def test_a_request_that_is_dropped_leaves_no_span_and_is_counted(
    agent: TracedProgram, detail: Detail, url: str
) -> None:
    detail.set_step(LAST)
    detail.threshold = 1 << 56  # not one of a thousand

    for _ in range(5):
        assert get(f"{url}/work").status == 200

    assert agent.spans() == []
    assert agent_status().overhead.dropped_requests == 5


def test_a_spared_request_whose_caller_left_ends_before_its_background_task(
    agent: TracedProgram, detail: Detail, url: str
) -> None:
    with_control(detail)

    with raw_get(url, "/endless") as client:
        client.recv(1)
    until(lambda: servers(agent))

    (request,) = servers(agent)
    assert request.attributes[semconv.CANCELLED] is True
    assert request.end_ns <= until(lambda: after_ns)[0]


def test_whoever_a_dropped_request_calls_is_told_that_nobody_records_it(
    agent: TracedProgram, detail: Detail, url: str
) -> None:
    detail.set_step(LAST)
    detail.threshold = 1 << 56

    told = get(f"{url}/work").text

    assert '-00"' in told or '-02"' in told
    assert agent.spans() == []


@pytest.mark.parametrize("caller", [{}, {"traceparent": UNSAMPLED}], ids=["here", "by its caller"])
def test_the_baggage_of_a_dropped_request_goes_on(
    agent: TracedProgram, detail: Detail, url: str, caller: dict[str, str]
) -> None:
    detail.set_step(LAST)
    detail.threshold = 1 << 56

    told = get(f"{url}/work", baggage="tenant=acme", **caller).text

    assert "tenant=acme" in told
    assert agent.spans() == []


def test_a_dropped_request_is_told_to_the_service_that_it_calls(
    agent: TracedProgram, detail: Detail, url: str
) -> None:
    detail.set_step(LAST)
    detail.threshold = 1 << 56
    port = url.rpartition(":")[2]

    get(f"{url}/calls?port={port}")

    assert agent.spans() == []
    assert agent_status().overhead.dropped_requests == 2


def test_what_a_caller_does_not_record_is_not_recorded_while_others_are_sampled(
    agent: TracedProgram, detail: Detail, url: str
) -> None:
    detail.set_step(SAMPLED)

    get(f"{url}/work", traceparent=UNSAMPLED)

    assert agent.spans() == []


def test_of_a_callers_trace_the_server_span_stays_and_says_what_it_lacks(
    agent: TracedProgram, detail: Detail, url: str
) -> None:
    detail.set_step(SAMPLED)

    answer = get(f"{url}/work", traceparent=LOW)

    (span,) = agent.spans(1)
    assert (span.kind, span.name) == (SpanKind.SERVER, "GET /work")
    assert span.attributes[semconv.DETAIL] == "server_span"
    assert span.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 200
    assert span.attributes[semconv.HTTP_ROUTE] == "/work"
    assert span.span_id in answer.text  # what it calls hangs below it


def test_a_request_of_the_control_group_has_its_own_span_alone(
    agent: TracedProgram, detail: Detail, url: str
) -> None:
    with_control(detail)

    get(f"{url}/work")
    get(f"{url}/parts")

    spans = agent.spans(2)
    assert [span.name for span in spans] == ["GET /work", "GET /parts"]
    assert {span.attributes[semconv.DETAIL] for span in spans} == {"control"}
    assert not any(semconv.INTERVALS in span.attributes for span in spans)
    assert agent_status().overhead.control_requests == 2


def test_what_a_control_request_queues_for_is_not_recorded_in_its_trace(
    agent: TracedProgram, detail: Detail, url: str
) -> None:
    with_control(detail)

    get(f"{url}/queued")

    assert [span.name for span in agent.spans(1)] == ["GET /queued"]


def test_a_spared_request_that_fails_says_so(
    agent: TracedProgram, detail: Detail, url: str
) -> None:
    with_control(detail)

    get(f"{url}/fails")

    (span,) = agent.spans(1)
    assert span.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 503
    assert span.attributes[semconv.ERROR_TYPE] == "503"


def test_the_services_of_a_trace_agree_on_the_control_group(
    agent: TracedProgram, detail: Detail, url: str
) -> None:
    detail.control = 1 << 19  # half of them
    detail.set_step(FULL)
    port = url.rpartition(":")[2]

    for _ in range(12):
        get(f"{url}/calls?port={port}")

    by_trace: dict[str, set[object]] = {}
    for span in servers(agent):
        by_trace.setdefault(span.trace_id, set()).add(span.attributes.get(semconv.DETAIL))
    assert len(by_trace) == 12
    assert all(len(details) == 1 for details in by_trace.values())


def test_without_gaps_requests_have_all_but_those(
    agent: TracedProgram, detail: Detail, url: str
) -> None:
    detail.set_step(WITHOUT_GAPS)

    get(f"{url}/work")

    (span,) = servers(agent)
    assert span.attributes[semconv.DETAIL] == "no_runtime_gaps"
    assert span.attributes[semconv.CONCURRENCY] == 1
    assert len(agent.named("rerank")) == 1
    assert recorder().open_requests.open == set()


def test_without_intervals_a_stream_keeps_its_tokens(
    agent: TracedProgram, detail: Detail, url: str
) -> None:
    get(f"{url}/parts")
    detail.set_step(WITHOUT_INTERVALS)
    get(f"{url}/parts")

    whole, reduced = servers(agent)
    assert semconv.INTERVALS in whole.attributes
    assert semconv.INTERVALS not in reduced.attributes
    assert reduced.attributes[semconv.DETAIL] == "no_intervals"
    same = semconv.STREAMED_EVENTS
    assert whole.attributes.get(same) == reduced.attributes.get(same)


def test_a_call_that_is_cheap_makes_no_span(agent: TracedProgram, detail: Detail) -> None:
    detail.set_step(3, frozenset({"request_body_to_args", "preprocess"}))
    app = fastapi.FastAPI()

    @app.post("/echo")
    async def echo(body: dict[str, int]) -> dict[str, int]:
        return body

    with serving(app) as url:
        assert httpx.post(f"{url}/echo", json={"a": 1}).status_code == 200

    names = {span.name for span in agent.spans() if span.kind is SpanKind.INTERNAL}
    assert "request_body_to_args" not in names


def test_a_unit_of_work_without_a_server_is_spared_like_a_request(
    agent: TracedProgram, detail: Detail
) -> None:
    with_control(detail)
    with latencytrace.request("nightly"), latencytrace.stage("rerank"):
        pass
    detail.set_step(LAST)
    detail.threshold = 1 << 56
    with latencytrace.request("nightly"), latencytrace.stage("rerank"):
        pass

    (span,) = agent.spans(1)
    assert (span.name, span.attributes[semconv.DETAIL]) == ("nightly", "control")


@pytest.fixture
def wsgi(agent: TracedProgram) -> FlaskClient:
    """The same served by Flask."""
    app = flask.Flask("app")

    @app.get("/work")
    def work() -> str:
        with latencytrace.stage("rerank"):
            return f"{get_current_span().get_span_context().trace_flags:02x}"

    return app.test_client()


def test_a_dropped_request_of_flask_leaves_no_span(
    agent: TracedProgram, detail: Detail, wsgi: FlaskClient
) -> None:
    detail.set_step(LAST)
    detail.threshold = 1 << 56

    assert wsgi.get("/work").get_data(as_text=True) in {"00", "02"}

    assert agent.spans() == []
    assert agent_status().overhead.dropped_requests == 1


def test_a_control_request_of_flask_has_its_own_span_alone(
    agent: TracedProgram, detail: Detail, wsgi: FlaskClient
) -> None:
    with_control(detail)

    wsgi.get("/work").close()

    (span,) = agent.spans(1)
    assert (span.name, span.attributes[semconv.DETAIL]) == ("GET /work", "control")
