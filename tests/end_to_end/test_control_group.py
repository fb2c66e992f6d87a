"""A budget and a control group, from the traced program to what the service says of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import fastapi
import pytest

import latencytrace
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.start import flush, recorder, start, uninstrument
from latencytrace.service.answers.documents import BreakdownDocument, RequestsDocument
from latencytrace.service.answers.findings.overhead_documents import OverheadDocument
from latencytrace.settings import agent_settings
from tests.support.servers.running_service import RunningService
from tests.support.servers.serving import get, serving
from tests.support.waiting import PATIENCE_S, until

REQUESTS = 400
RAG = "service=rag"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    with RunningService(tmp_path / "data") as running:
        environ = {
            "OTEL_BSP_SCHEDULE_DELAY": "20",
            "LATENCYTRACE_CONTROL": "0.5",
            "LATENCYTRACE_OVERHEAD": "off",
            "LATENCYTRACE_HOOKS": "asgi",  # this test asks the service itself
            "LATENCYTRACE_GPU": "0",
        }
        settings = agent_settings(endpoint=running.otlp, service_name="rag", environ=environ)
        start(settings, raise_fault)
        try:
            yield running
        finally:
            uninstrument()


@pytest.fixture
def url(service: RunningService) -> Iterator[str]:
    app = fastapi.FastAPI()

    @app.get("/answer")
    async def answer() -> str:
        with latencytrace.stage("rerank"):
            return "42"

    with serving(app) as address:
        yield f"{address}/answer"


def settled(service: RunningService, requests: int) -> None:
    """Wait until so many requests are counted."""
    assert flush(PATIENCE_S)
    until(lambda: service.metric("latencytrace_requests_total") == requests, service.said)


def breakdown(service: RunningService, query: str) -> BreakdownDocument:
    return cast("BreakdownDocument", service.ask(f"/breakdown?{query}"))


def overhead(service: RunningService) -> OverheadDocument:
    return cast("OverheadDocument", service.ask(f"/overhead?{RAG}"))


def test_a_control_group_says_what_tracing_costs(service: RunningService, url: str) -> None:
    for _ in range(REQUESTS):
        get(url)
    settled(service, REQUESTS)

    whole, control = breakdown(service, RAG), breakdown(service, f"{RAG}&detail=control")
    found = overhead(service)
    assert whole["requests"] + whole["left_out"]["reduced_detail"] == REQUESTS
    assert whole["left_out"]["reduced_detail"] == control["requests"] > REQUESTS // 4
    assert "rerank" in {row["stage"] for row in whole["stages"]}
    assert "rerank" not in {row["stage"] for row in control["stages"]}
    assert (found["requests"], found["control_requests"]) == (
        whole["requests"],
        control["requests"],
    )
    low_ns, difference_ns, high_ns = found["low_ns"], found["difference_ns"], found["high_ns"]
    assert None not in {low_ns, difference_ns, high_ns}
    assert (low_ns or 0) <= (high_ns or 0)
    assert "requests of the control group" in service.get("/health").text


@pytest.mark.long
def test_too_few_requests_are_not_enough_data(service: RunningService, url: str) -> None:
    for _ in range(20):
        get(url)
    settled(service, 20)

    found = overhead(service)

    assert found["difference_ns"] is None
    assert 80 <= (found["needed_control_requests"] or 0) <= 100


@pytest.mark.long
def test_requests_in_less_detail_are_counted_and_said_so(
    service: RunningService, url: str
) -> None:
    detail = recorder().detail
    detail.control = 0
    detail.set_step(1)

    for _ in range(10):
        get(url)
    settled(service, 10)

    found = breakdown(service, RAG)
    listed = cast("RequestsDocument", service.ask(f"/requests?{RAG}"))["requests"]
    assert (found["requests"], found["reduced_requests"]) == (10, 10)
    assert {one["detail"] for one in listed} == {"no_runtime_gaps"}
