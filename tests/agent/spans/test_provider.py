"""How long a program's exit, or its flush, waits for the last spans."""

import pytest
from opentelemetry.sdk.trace import SpanProcessor

from latencytrace.agent.spans import processors, provider
from latencytrace.agent.spans.provider import SHUTDOWN_AGAIN_S, SHUTDOWN_S, RecordingProvider
from latencytrace.agent.spans.tracer import discard
from tests.support.fakes.contracts import FakeClock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    for module in (provider, processors):
        monkeypatch.setattr(module, "monotonic_ns", clock)
    return clock


def test_one_who_shuts_down_several_times_waits_once_for_the_last_spans(clock: FakeClock) -> None:
    limits_s: list[float] = []

    def flush(limit_s: float) -> bool:
        limits_s.append(limit_s)
        clock.move_s(2)
        return False

    ours = RecordingProvider()
    ours.configure(discard, flush=flush)
    for _ in range(3):
        ours.shutdown()

    assert limits_s == [SHUTDOWN_S, SHUTDOWN_S - 2, SHUTDOWN_AGAIN_S]


def test_all_that_are_flushed_share_the_time_that_was_given(clock: FakeClock) -> None:
    limits_ms: list[float] = []

    class Slow(SpanProcessor):
        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            limits_ms.append(timeout_millis)
            clock.move_s(3)
            return True

    def flush(limit_s: float) -> bool:
        limits_ms.append(limit_s * 1000)
        clock.move_s(1)
        return True

    ours = RecordingProvider()
    ours.configure(discard, flush=flush)
    for _ in range(3):
        ours.add_span_processor(Slow())

    assert ours.force_flush(5_000)
    assert limits_ms == [5_000, 4_000, 1_000, 0]
