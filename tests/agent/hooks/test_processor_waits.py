"""Requests whose thread waits for a processor say so, whichever form of a hook times them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask
from opentelemetry.trace import SpanKind
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from latencytrace.agent.timing.processor_waits import PROCESSOR_WAITS
from latencytrace.model import semconv
from tests.support.agent.receiving import ReceivedSpan, TracedProgram
from tests.support.servers.serving import get, serving
from tests.support.waiting import until

LEAST_NS = 1_000_000

pytestmark = pytest.mark.skipif(
    not Path("/proc/thread-self/schedstat").exists() or not hasattr(os, "sched_setaffinity"),
    reason="the kernel tells nothing",
)


@pytest.fixture
def contended(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Has the thread that calls it wait for a processor, beside a process that never rests."""
    monkeypatch.setattr(PROCESSOR_WAITS, "_files", {})
    one = min(os.sched_getaffinity(0))
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    os.sched_setaffinity(busy.pid, {one})

    def wait() -> None:
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {one})
        before_ns = PROCESSOR_WAITS.read() or 0
        while (PROCESSOR_WAITS.read() or 0) - before_ns < LEAST_NS:
            pass
        os.sched_setaffinity(0, before)

    yield wait
    busy.kill()
    busy.wait()


def served(agent: TracedProgram) -> ReceivedSpan:
    """The request's span, once it is there."""

    def found() -> list[ReceivedSpan]:
        return [span for span in agent.spans() if span.kind is SpanKind.SERVER]

    until(found)
    (span,) = found()
    return span


def waited_ns(span: ReceivedSpan) -> int:
    found = span.attributes[semconv.PROCESSOR_WAIT_NS]
    assert isinstance(found, int)
    return found


def test_an_asgi_applications_request_says_how_long_it_waited_at_least(
    agent: TracedProgram, contended: Callable[[], None]
) -> None:
    async def work(_: Request) -> Response:
        contended()
        return PlainTextResponse("done")

    with serving(Starlette(routes=[Route("/work", work)])) as url:
        get(f"{url}/work")

    assert waited_ns(served(agent)) >= LEAST_NS


def test_a_wsgi_applications_request_does_so_too(
    agent: TracedProgram, contended: Callable[[], None]
) -> None:
    app = Flask(__name__)

    @app.get("/work")
    def work() -> str:
        contended()
        return "done"

    app.test_client().get("/work")

    assert waited_ns(served(agent)) >= LEAST_NS
