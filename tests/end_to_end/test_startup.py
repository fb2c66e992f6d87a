"""What a process does before its first request is its load, left out and said so."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from latencytrace.model import Span, SpanKind
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.servers.command_line import latencytrace
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

MS = 1_000_000
DOWNLOAD, CHAT = "1" * 32, "2" * 32


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    with RunningService(tmp_path / "data", env={"LATENCYTRACE_SETTLE": "3600"}) as service:
        yield service


def made(trace_id: str, kind: SpanKind, at_ms: int, **attributes: str) -> Span:
    now_ns = time.time_ns() - 10_000 * MS
    noted = {key.replace("_", "."): value for key, value in attributes.items()}
    span = one_span(
        trace_id,
        trace_id[:16],
        name="GET",
        kind=kind,
        start_ns=now_ns + at_ms * MS,
        end_ns=now_ns + (at_ms + 30) * MS,
        attributes=noted,
    )
    return replace(span, service="rag", instance="rag-1")


def test_a_download_at_import_becomes_the_load_of_its_process(service: RunningService) -> None:
    service.post(otlp(made(DOWNLOAD, SpanKind.CLIENT, 0, http_request_method="GET")))
    first = service.request(DOWNLOAD)
    chat = {"http_request_method": "POST", "http_route": "/chat"}
    service.post(otlp(made(CHAT, SpanKind.SERVER, 5000, **chat)))
    load = service.request(DOWNLOAD, revision=2)

    assert (first["route"], load["route"]) == ("GET", "load")
    assert load["ledger"] == {"load": 30 * MS}
    until(lambda: cast(dict[str, Any], service.ask("/breakdown"))["requests"] == 1, service.said)
    breakdown = cast(dict[str, Any], service.ask("/breakdown"))
    assert (breakdown["requests"], breakdown["left_out"]["startup"]) == (1, 1)
    assert service.ask("/services") == {"services": [{"service": "rag", "routes": ["POST /chat"]}]}
    assert 'route="GET"' not in service.get("/metrics").text
    drawn = latencytrace("breakdown", "--url", service.url).stdout
    assert "Left out: 1 load of processes before they served (--route load)." in drawn
    asked = cast(dict[str, Any], service.ask("/breakdown?route=load"))
    assert [row["stage"] for row in asked["stages"]] == ["load"]
