"""A service that was sent odd spans accounts for each, and shows what it has.

`tests/service/otlp/test_odd_requests.py` reads many more of them, without a service.
"""

import re
import subprocess
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from latencytrace.model.texts.escaped import is_blank
from latencytrace.service.ingest.grpc import EXPORT
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.web.pages.rendering import NAVIGATION
from tests.support.builders.spans.odd_requests import OddRequests
from tests.support.few import few
from tests.support.servers.command_line import COMMAND, environment
from tests.support.servers.running_service import RunningService
from tests.support.waiting import PATIENCE_S, until

POSTS = 60
ACCOUNT = ("attributed_total", "open", "rootless", "without_ledger_total")
COMMANDS = (
    ("breakdown", "--all", "--since", "24h"),
    ("requests", "--since", "24h"),
    ("tail", "--since", "24h"),
    ("trace", "slowest", "--since", "24h"),
    ("export", "--since", "24h"),
)
PAGES = (*(link.path for link in NAVIGATION), "/metrics")


def span_count(request: ExportTraceServiceRequest) -> int:
    return sum(
        len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans
    )


LED_BY = re.compile(r"<(a|h1|h2)\b([^>]*)>(.*?)</\1>", re.DOTALL)


def without_text(page: str) -> list[str]:
    """The links and headings of a page that nobody can see or hear."""
    return [
        found[0]
        for found in LED_BY.finditer(page)
        if "aria-label" not in found[2] and is_blank(unescape(re.sub("<[^>]*>", "", found[3])))
    ]


def send(service: RunningService, channel: grpc.Channel, place: int, odd: OddRequests) -> int:
    """Send one request by one of the three ways; how many spans were acknowledged."""
    request = odd.request()
    if place % 3 == 0:
        answer = service.post(odd.encoded(request))
        body = answer.content
        assert answer.status_code == 200, answer.text
    elif place % 3 == 1:
        as_json = otlp.answer(request, otlp.JSON).body
        answer = service.post(as_json, {"content-type": otlp.JSON})
        assert answer.status_code == 200, answer.text
        rejected = answer.json().get("partialSuccess", {}).get("rejectedSpans", 0)
        return span_count(request) - int(rejected)
    else:
        body = channel.unary_unary(EXPORT)(odd.encoded(request), timeout=PATIENCE_S)
    response = ExportTraceServiceResponse.FromString(body)
    return span_count(request) - response.partial_success.rejected_spans


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    odd = OddRequests(23)
    with RunningService(tmp_path_factory.mktemp("odd") / "data") as running:
        with grpc.insecure_channel(running.otlp_grpc) as channel:
            sent = sum(send(running, channel, place, odd) for place in range(POSTS))
        assert running.metric("latencytrace_service_spans_received_total") == sent
        until(
            lambda: running.metric("latencytrace_service_spans_open") == 0,
            running.said,
        )
        yield running


def test_each_acknowledged_span_is_accounted_for(service: RunningService) -> None:
    received = service.metric("latencytrace_service_spans_received_total")
    parts = [service.metric(f"latencytrace_service_spans_{name}") for name in ACCOUNT]

    assert received == sum(parts)
    assert service.metric("latencytrace_service_spans_unaccounted") == 0
    assert service.metric("latencytrace_service_faulty_traces_total") == 0


@pytest.mark.parametrize(
    "command", few(2, ((one,) for one in COMMANDS)), ids=lambda command: command[0]
)
def test_each_command_shows_them(
    service: RunningService, command: tuple[str, ...], tmp_path: Path
) -> None:
    done = subprocess.run(
        [*COMMAND, *command, "--url", service.url],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        timeout=PATIENCE_S,
        env=environment(),
    )

    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.strip()
    assert b"please report it" not in done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_each_page_shows_them(service: RunningService, page: str) -> None:
    query = "" if page == "/metrics" else f"?{urlencode({'since': '24h'})}"
    answer = service.get(f"{page}{query}", {"accept": "text/html"})

    assert answer.status_code == 200, answer.text[:500]
    assert 'class="problem"' not in answer.text
    assert without_text(answer.text) == []


def test_the_page_of_each_request_shows_it(service: RunningService) -> None:
    found = service.get("/api/v1/requests?since=24h&limit=60").json()["requests"]

    assert found
    for one in found:
        answer = service.get(f"/requests/{one['trace_id']}", {"accept": "text/html"})
        assert answer.status_code == 200, answer.text[:500]
        assert without_text(answer.text) == []


def test_each_route_that_is_listed_can_be_asked_for(service: RunningService) -> None:
    found = service.get("/api/v1/overview?since=24h&limit=200").json()["routes"]

    assert found
    for one in found:
        query = {"service": one["service"], "route": one["route"], "since": "24h"}
        document = service.get(f"/api/v1/breakdown?{urlencode(query)}").json()
        assert document["requests"] >= one["requests"], query  # inner ones, too
