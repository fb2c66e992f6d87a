"""Thousands of odd spans of each kind, no two alike: counted, bounded, and without harm to others.

`LATENCYTRACE_TEST_FLOOD=20` sends ten thousand of each.
"""

import os
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.support.builders.spans.forged_spans import KINDS, Forged, body_of, moved, span
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

POSTS, SPANS = int(os.environ.get("LATENCYTRACE_TEST_FLOOD", "5")), 500
FORGED = POSTS * SPANS
GOOD = 25  # requests of a good sender after each flood
MOST_LINES = 20_000  # of /metrics
MOST_RESIDENT_BYTES = 1 << 30

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("floods") / "data") as running:
        yield running


def post(service: RunningService, forged: list[Forged]) -> None:
    body = body_of(forged)

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
