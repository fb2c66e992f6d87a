"""A receiver that is dead for an hour, on a clock that runs as fast as the machine can."""

import threading

from latencytrace.agent.export.exporter import Exporter
from latencytrace.agent.export.http import HttpSender
from latencytrace.agent.export.otlp_traces import OtlpEncoder
from latencytrace.agent.export.queue import SpanQueue
from latencytrace.agent.export.transport import Response
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.process.wake import Wake
from latencytrace.agent.spans.provider import RecordingProvider
from tests.support.agent.receiving import Receiver
from tests.support.fakes.contracts import FakeClock
from tests.support.servers.ports import free_port
from tests.support.waiting import PATIENCE_S, until

HOUR_NS = 3_600_000_000_000
SPANS_A_WAIT = 5
MOST_SPANS = 1000
MOST_BYTES = 300_000
SHORT_S = 0.001


class CountingSender(HttpSender):
    """Counts its attempts."""

    attempts = 0

    def send(self, body: bytes, timeout_s: float | None = None) -> Response:
        """See `HttpSender.send`."""
        self.attempts += 1
        return super().send(body, timeout_s)


class Hour:
    """A program that makes spans all the time, and an exporter for whom waiting takes no time."""

    def __init__(self, url: str, most_bytes: int) -> None:
        self.clock = FakeClock()
        self.made = 0
        self.longest_queue = 0
        self.most_weighed = 0
        self.is_over = threading.Event()
        self.goes_on = threading.Event()
        self._is_ready = threading.Event()
        self.queue = SpanQueue(MOST_SPANS, most_bytes)
        self.sender = CountingSender(f"{url}/v1/traces", {}, PATIENCE_S)
        self.exporter = Exporter(
            OtlpEncoder({"service.name": "program"}),
            self.sender,
            queue=self.queue,
            interval_s=0.5,
            on_fault=raise_fault,
            wait=self._wait,
            now_ns=self.clock,
        )
        provider = RecordingProvider()
        provider.configure(self.queue.on_end)
        self._tracer = provider.get_tracer("scope")
        self._is_ready.set()

    def _wait(self, wake: Wake, seconds: float) -> None:
        self._is_ready.wait(PATIENCE_S)
        self.clock.move_s(seconds)
        if self.is_over.is_set():
            wake.wait(SHORT_S)
            return
        for _ in range(SPANS_A_WAIT):
            self._tracer.start_span("name", attributes={"size": "x" * 100}).end()
        self.made += SPANS_A_WAIT
        self.longest_queue = max(self.longest_queue, len(self.queue))
        self.most_weighed = max(self.most_weighed, self.queue.weighed_bytes)
        if self.clock() >= HOUR_NS:
            self.is_over.set()
            self.goes_on.wait(PATIENCE_S)


def test_an_hour_without_receiver_is_survived_in_bounds_and_every_span_is_accounted_for() -> None:
    port = free_port()
    hour = Hour(f"http://127.0.0.1:{port}", 1 << 30)
    assert hour.is_over.wait(10 * PATIENCE_S)
    attempts, kept = hour.sender.attempts, hour.exporter.queued + hour.exporter.counts.in_flight
    dropped = hour.exporter.counts.dropped

    with Receiver(port) as receiver:
        hour.goes_on.set()
        until(lambda: len(receiver.spans) == kept)
        assert hour.exporter.stop(PATIENCE_S)

    assert hour.longest_queue == MOST_SPANS
    # Every half a minute or a fifth sooner, after the first.
    assert 3600 / 30 <= attempts <= 3600 / 24 + 10
    assert hour.made > 10 * MOST_SPANS
    assert kept + dropped == hour.made
    assert hour.exporter.counts.sent == kept
    assert hour.exporter.counts.dropped == dropped


def test_an_hour_without_receiver_holds_no_more_bytes_than_it_may() -> None:
    port = free_port()
    hour = Hour(f"http://127.0.0.1:{port}", MOST_BYTES)
    assert hour.is_over.wait(10 * PATIENCE_S)

    with Receiver(port) as receiver:
        hour.goes_on.set()
        until(lambda: len(receiver.spans) + hour.exporter.counts.dropped == hour.made)
        assert hour.exporter.stop(PATIENCE_S)

    assert 0 < hour.longest_queue < MOST_SPANS
    assert MOST_BYTES / 2 < hour.most_weighed < 1.5 * MOST_BYTES
