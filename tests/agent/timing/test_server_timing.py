"""The stages of a request in its answer's header, under real servers."""

import time
from typing import Any

import flask
import httpx
import pytest
from fastapi import FastAPI, Response

import latencytrace
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.start import start, uninstrument
from latencytrace.agent.timing.server_timing import MOST_SPANS, ServerTiming
from latencytrace.settings import AgentSettings, agent_settings
from tests.support.agent.receiving import Receiver
from tests.support.servers.serving import serving, serving_wsgi

STEP_S = 0.02
HEADER = "server-timing"


@pytest.fixture
def settings(receiver: Receiver) -> AgentSettings:
    """Settings of an agent that is asked for the header."""
    return agent_settings(
        endpoint=receiver.endpoint,
        service_name="program",
        environ={"OTEL_BSP_SCHEDULE_DELAY": "20", "LATENCYTRACE_SERVER_TIMING": "1"},
    )


def work() -> None:
    with latencytrace.stage("retrieve"):
        time.sleep(STEP_S)
    with latencytrace.stage("rerank"):
        pass


def asgi() -> FastAPI:
    app = FastAPI()

    @app.get("/")
    def answer(response: Response) -> str:
        response.headers["Server-Timing"] = "app;dur=1"
        work()
        return "ok"

    return app


def wsgi() -> flask.Flask:
    app = flask.Flask("program")

    @app.get("/")
    def answer() -> flask.Response:
        work()
        return flask.Response("ok", headers={"Server-Timing": "app;dur=1"})

    return app


def timings(answer: httpx.Response) -> dict[str, float]:
    """Milliseconds by name."""
    entries = ", ".join(answer.headers.get_list(HEADER)).split(", ")
    return {name: float(length) for name, _, length in (e.partition(";dur=") for e in entries)}


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize(
    ("server", "application"), [(serving, asgi), (serving_wsgi, wsgi)], ids=["asgi", "wsgi"]
)
def test_an_answer_says_what_its_request_was_spent_on(
    server: Any,
    application: Any,
) -> None:
    with server(application()) as address:
        reported = timings(httpx.get(address, trust_env=False))

    assert reported.keys() >= {"app", "retrieve", "rerank", "total"}
    assert STEP_S * 900 <= reported["retrieve"] <= reported["total"]
    assert reported["app"] == 1


def test_nothing_is_reported_unless_it_was_asked_for(receiver: Receiver) -> None:
    settings = agent_settings(endpoint=receiver.endpoint, service_name="program", environ={})
    start(settings, raise_fault)
    try:
        with serving(asgi()) as address:
            answer = httpx.get(address, trust_env=False)
    finally:
        uninstrument()

    assert timings(answer) == {"app": 1}


def test_what_runs_side_by_side_is_counted_once() -> None:
    timing = ServerTiming(1, 0)
    timing.add("retrieve", 0, 6_000_000)
    timing.add("retrieve", 2_000_000, 8_000_000)
    timing.add("rerank", 8_000_000, 9_000_000)

    assert timing.value(10_000_000) == "retrieve;dur=8.0, rerank;dur=1.0, total;dur=10.0"


def test_of_very_many_spans_the_first_are_counted() -> None:
    timing = ServerTiming(1, 0)
    for span in range(MOST_SPANS + 5):
        timing.add("decode", span * 1_000_000, (span + 1) * 1_000_000)

    assert timing.value(2_000_000_000) == f"decode;dur={MOST_SPANS}.0, total;dur=2000.0"
