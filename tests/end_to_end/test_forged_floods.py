"""Thousands of odd spans of each kind, no two alike: counted, bounded, and without harm to others.

`LATENCYTRACE_TEST_FLOOD=20` sends ten thousand of each.
"""

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

POSTS, SPANS = int(os.environ.get("LATENCYTRACE_TEST_FLOOD", "5")), 500
FORGED = POSTS * SPANS
GOOD = 25  # requests of a good sender after each flood
ALIKE = "~~~~"  # four bytes in the place of which comes what is no UTF-8
MOST_LINES = 20_000  # of /metrics
MOST_RESIDENT_BYTES = 1 << 30

pytestmark = pytest.mark.long


class Forged(NamedTuple):
    """A span that differs from all others of its kind, and who sends it."""

    span: ProtoSpan
    service: str = "forger"


def span(number: int, name: str = "POST /forged", **attributes: str) -> ProtoSpan:
    start_ns = time.time_ns() - 10**9
    return ProtoSpan(
        trace_id=number.to_bytes(16, "big"),
        span_id=(number + 1).to_bytes(8, "big"),
        name=name,
        kind=ProtoSpan.SPAN_KIND_SERVER,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=start_ns + 10**6,
        attributes=[text(key, value) for key, value in attributes.items()],
    )


def text(key: str, value: str) -> KeyValue:
    found = KeyValue(key=key)
    found.value.string_value = value
    return found


def absurd(number: int) -> Forged:
    found = span(number)
    found.start_time_unix_nano = number % 1000
    return Forged(found)


def of_totals(number: int) -> Forged:
    found = span(number, f"agent {number}")
    found.attributes.append(text("gen_ai.request.model", f"model-{number}"))
    found.attributes.add(key="gen_ai.usage.output_tokens").value.int_value = number
    return Forged(found)


def shared(number: int) -> Forged:
    found = span(number // 2 * 2, f"half {number}")
    found.kind = ProtoSpan.SPAN_KIND_CLIENT if number % 2 else ProtoSpan.SPAN_KIND_SERVER
    return Forged(found, f"half-{number % 2}")


KINDS: dict[str, Callable[[int], Forged]] = {
    "texts": lambda number: Forged(span(number, f"GET /{ALIKE}{number}", key=f"{ALIKE}{number}")),
    "keys": lambda number: Forged(span(number, **{f"{ALIKE}{number}": "a"})),
    "names": lambda number: Forged(span(number, f"GET /{chr(0x4E00 + number)}")),
    "services": lambda number: Forged(span(number), f"{ALIKE}{number}"),
    "nameless": lambda number: Forged(span(number, " " * (number % 2000))),
    "totals": of_totals,
    "ids": shared,
    "braces": lambda number: Forged(span(number, f"GET /{{{{ a{number} }}}}")),
    "times": absurd,
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("floods") / "data") as running:
        yield running


def post(service: RunningService, forged: list[Forged]) -> None:
    request = ExportTraceServiceRequest()
    by_service: dict[str, ResourceSpans] = {}
    for one in forged:
        if one.service not in by_service:
            by_service[one.service] = resource = request.resource_spans.add()
            resource.resource.attributes.append(text("service.name", one.service))
            resource.scope_spans.add()
        by_service[one.service].scope_spans[0].spans.append(one.span)
    body = request.SerializeToString().replace(ALIKE.encode(), b"\xff\xfe\xc3\x28")

    def is_taken() -> bool:
        answer = service.post(body)
        assert answer.status_code in {200, 429}, answer.text
        assert not answer.content
        return answer.status_code == 200

    until(is_taken, service.said)


def resident_bytes(service: RunningService) -> int:
    told = Path(f"/proc/{service.process.pid}/status").read_text()
    (line,) = (line for line in told.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


def moved(forged: Forged, place: int) -> Forged:
    """The same, in a trace that no other kind has."""
    forged.span.trace_id = bytes([place]) + forged.span.trace_id[1:]
    return forged


def wait_until_attributed(service: RunningService) -> None:
    """Wait as long as it goes on, however busy the machine is."""

    def count() -> float:
        return service.metric("latencytrace_service_spans_open")

    def has_fallen(below: float) -> bool:
        return count() < below

    while left := count():
        until(partial(has_fallen, left), service.said)


@pytest.mark.parametrize(("place", "kind"), list(enumerate(KINDS, 1)), ids=list(KINDS))
def test_a_flood_is_counted_and_bounded(service: RunningService, place: int, kind: str) -> None:
    received = service.metric("latencytrace_service_spans_received_total")
    made = (moved(KINDS[kind](number), place) for number in range(FORGED))
    for _ in range(POSTS):
        post(service, list(islice(made, SPANS)))
    beside = f"beside {kind}"
    post(service, [moved(Forged(span(number), beside), 100 + place) for number in range(GOOD)])

    wait_until_attributed(service)
    assert service.metric("latencytrace_service_spans_received_total") == received + FORGED + GOOD
    assert service.metric("latencytrace_service_spans_unaccounted") == 0
    assert service.metric("latencytrace_service_faulty_traces_total") == 0
    found = service.ask(f"/breakdown?{urlencode({'service': beside})}")
    assert found["requests"] == GOOD
    assert len(service.get("/metrics").text.splitlines()) < MOST_LINES
    assert resident_bytes(service) < MOST_RESIDENT_BYTES
