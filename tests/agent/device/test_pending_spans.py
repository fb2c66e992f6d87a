"""Spans whose device still works when they are over for the host."""

import threading

import pytest

from latencytrace.agent.device.pending_spans import LONGEST_NS, MOST
from latencytrace.agent.device.timer import DevicePasses, DeviceTimer
from latencytrace.agent.timing.recorder import Timing
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans
from tests.support.fakes.contracts import FakeClock
from tests.support.fakes.cuda import FakeCuda

MS = 1_000_000


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda(FakeClock(5_000 * MS))


def computed(spans: Spans, cuda: FakeCuda) -> tuple[Timing, DevicePasses]:
    """A span whose host is done at once, and the device 20 ms later."""
    timing = spans.recorder.start("forward", Stage.FORWARD, started_ns=cuda.clock())
    passes = DeviceTimer(cuda, cuda.clock).passes()
    passes.begin()
    cuda.work(20)
    passes.end()
    return timing, passes


def ended_late(spans: Spans, cuda: FakeCuda) -> None:
    timing, passes = computed(spans, cuda)
    spans.recorder.devices.pending.end(timing, cuda.clock() + 1, passes)


def test_a_span_whose_device_is_done_ends_at_once(spans: Spans, cuda: FakeCuda) -> None:
    timing, passes = computed(spans, cuda)
    cuda.wait()

    spans.recorder.devices.pending.end(timing, cuda.clock(), passes)

    assert spans.only.attributes[semconv.DEVICE_DURATION] == 20 * MS


def test_another_ends_when_its_device_is_seen_to_be_done_with_the_end_it_had(
    spans: Spans, cuda: FakeCuda
) -> None:
    ended_late(spans, cuda)
    before = list(spans.names)
    cuda.wait()

    spans.recorder.devices.pending.settle()

    assert before == []
    assert spans.only.ended_ns - spans.only.started_ns == 1
    assert spans.only.attributes[semconv.DEVICE_DURATION] == 20 * MS


def test_the_end_of_a_span_around_it_settles_it_first(spans: Spans, cuda: FakeCuda) -> None:
    outer = spans.recorder.start("encode", Stage.EMBED)
    ended_late(spans, cuda)
    cuda.wait()

    outer.end()

    assert spans.names == ["forward", "encode"]


def test_a_span_that_waits_and_is_ended_again_is_sent_once(spans: Spans, cuda: FakeCuda) -> None:
    timing, passes = computed(spans, cuda)
    spans.recorder.devices.pending.end(timing, cuda.clock() + 1, passes)
    cuda.wait()

    timing.end()

    assert spans.names == ["forward"]
    assert spans.only.ended_ns - spans.only.started_ns == 1


def test_a_thread_that_had_nothing_computed_asks_no_device(spans: Spans, cuda: FakeCuda) -> None:
    ended_late(spans, cuda)
    cuda.wait()

    other = threading.Thread(target=spans.recorder.devices.pending.settle)
    other.start()
    other.join()

    assert spans.names == []


def test_however_many_wait_few_are_asked_for(spans: Spans, cuda: FakeCuda) -> None:
    for _ in range(MOST):
        ended_late(spans, cuda)
    before = cuda.questions

    spans.recorder.devices.pending.settle()

    assert spans.names == []
    assert 1 <= cuda.questions - before <= 8


def test_all_that_are_done_end_together(spans: Spans, cuda: FakeCuda) -> None:
    for _ in range(MOST // 10):
        ended_late(spans, cuda)
    cuda.wait()

    spans.recorder.devices.pending.settle()

    assert len(spans.all) == MOST // 10
    assert not spans.recorder.devices.pending.waiting


def test_after_a_second_it_ends_unmeasured(spans: Spans, cuda: FakeCuda) -> None:
    ended_late(spans, cuda)
    spans.recorder.devices.pending.give_up(cuda.clock() + LONGEST_NS // 2)
    early = list(spans.names)

    spans.recorder.devices.pending.give_up(cuda.clock() + LONGEST_NS + 1)

    assert early == []
    assert spans.only.attributes[semconv.DEVICE_UNMEASURED] == 1
    assert spans.only.ended_ns - spans.only.started_ns == 1


def test_too_many_end_unmeasured_the_oldest_first(spans: Spans, cuda: FakeCuda) -> None:
    for _ in range(MOST + 3):
        ended_late(spans, cuda)

    assert len(spans.all) == 3


def test_a_flush_ends_all_of_them(spans: Spans, cuda: FakeCuda) -> None:
    for _ in range(3):
        ended_late(spans, cuda)

    spans.recorder.devices.pending.give_up(None)

    assert len(spans.all) == 3


def test_a_forked_child_ends_none_of_its_parents(spans: Spans, cuda: FakeCuda) -> None:
    ended_late(spans, cuda)

    spans.recorder.reset_after_fork()
    spans.recorder.devices.pending.give_up(None)

    assert spans.names == []
