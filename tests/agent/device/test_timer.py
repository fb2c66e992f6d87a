"""How long a device worked for a span, on a device with CUDA's manners."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.agent.device.timer import (
    ANCHOR_NS,
    DRIFT,
    MOST_PENDING,
    DevicePasses,
    DeviceTimer,
)
from latencytrace.model import semconv
from tests.support.fakes.contracts import FakeClock
from tests.support.fakes.cuda import FakeCuda

MS = 1_000_000
BEGAN_NS = 5_000 * MS


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(BEGAN_NS)


@pytest.fixture
def cuda(clock: FakeClock) -> FakeCuda:
    return FakeCuda(clock)


@pytest.fixture
def timer(cuda: FakeCuda, clock: FakeClock) -> DeviceTimer:
    return DeviceTimer(cuda, clock)


def run(passes: DevicePasses, cuda: FakeCuda, device_ms: float, launch_ms: float = 0.5) -> None:
    """One pass: the host hands it over for a while."""
    passes.begin()
    cuda.work(device_ms)
    cuda.clock.move_s(launch_ms / 1e3)
    passes.end()


def test_a_pass_is_timed_by_the_device_and_placed_on_the_hosts_timeline(
    timer: DeviceTimer, cuda: FakeCuda
) -> None:
    passes = timer.passes()
    run(passes, cuda, 20)
    cuda.wait()

    assert passes.settle()
    assert passes.attributes(BEGAN_NS - 3 * MS) == {
        semconv.DEVICE_ID: "GPU-a",
        semconv.DEVICE_PASSES: 1,
        semconv.DEVICE_DURATION: 20 * MS,
        semconv.DEVICE_LAUNCH: MS // 2,
        semconv.DEVICE_START: pytest.approx(3 * MS, abs=2_000),
        semconv.DEVICE_END: pytest.approx(23 * MS, abs=2_000),
        semconv.DEVICE_QUEUE_DELAY: pytest.approx(0, abs=2_000),
        semconv.DEVICE_ERROR: pytest.approx(0, abs=2_000),
    }


def test_what_the_device_is_not_done_with_is_not_waited_for(
    timer: DeviceTimer, cuda: FakeCuda
) -> None:
    passes = timer.passes()
    run(passes, cuda, 20)
    before_ns = cuda.clock()

    settled = passes.settle()

    assert (settled, cuda.clock() - before_ns) == (False, 0)
    assert passes.attributes(BEGAN_NS) == {}


def test_the_wait_for_earlier_work_is_the_queue_delay(timer: DeviceTimer, cuda: FakeCuda) -> None:
    first = timer.passes()
    run(first, cuda, 1)
    cuda.wait()
    first.settle()  # the device's clock is known from here on
    cuda.work(30)  # somebody else's
    passes = timer.passes()
    run(passes, cuda, 5)
    cuda.wait()

    passes.settle()

    delay_ns = passes.attributes(BEGAN_NS)[semconv.DEVICE_QUEUE_DELAY]
    assert delay_ns == pytest.approx(30 * MS, abs=MS)


def test_passes_add_up_and_the_gaps_between_them_do_not_count(
    timer: DeviceTimer, cuda: FakeCuda
) -> None:
    passes = timer.passes()
    for _ in range(10):
        run(passes, cuda, 4)
        cuda.wait()
        passes.settle()
        cuda.clock.move_s(0.003)

    noted = passes.attributes(BEGAN_NS)
    assert noted[semconv.DEVICE_DURATION] == pytest.approx(40 * MS, rel=1e-5)
    assert noted[semconv.DEVICE_PASSES] == 10
    assert noted[semconv.DEVICE_END] == pytest.approx(10 * 4 * MS + 9 * 3 * MS, abs=MS)


def test_events_are_used_again(timer: DeviceTimer, cuda: FakeCuda) -> None:
    for _ in range(100):
        passes = timer.passes()
        run(passes, cuda, 4)
        cuda.wait()
        passes.settle()

    assert cuda.made == 3  # an anchor, a start, an end


def test_nothing_is_recorded_or_asked_while_a_graph_is_captured(
    timer: DeviceTimer, cuda: FakeCuda
) -> None:
    passes = timer.passes()
    run(passes, cuda, 4)
    cuda.wait()
    cuda.captures = True

    run(passes, cuda, 4)
    settled = passes.settle()

    assert (settled, cuda.asked_while_capturing) == (False, False)
    assert passes.unmeasured == 1


def test_a_pass_in_which_a_capture_begins_is_not_measured(
    timer: DeviceTimer, cuda: FakeCuda
) -> None:
    passes = timer.passes()
    passes.begin()
    cuda.captures = True
    passes.end()
    cuda.captures = False

    assert passes.settle()
    assert passes.attributes(BEGAN_NS) == {semconv.DEVICE_UNMEASURED: 1}


def test_a_graph_that_another_thread_captures_is_not_broken(
    timer: DeviceTimer, cuda: FakeCuda
) -> None:
    cuda.captures_elsewhere = True
    passes = timer.passes()
    run(passes, cuda, 4)
    cuda.wait()

    assert passes.settle()
    assert not cuda.asked_while_capturing


def test_a_pass_that_never_ends_is_forgotten_and_its_event_used_again(
    timer: DeviceTimer, cuda: FakeCuda
) -> None:
    passes = timer.passes()
    passes.begin()
    run(passes, cuda, 4)
    cuda.wait()
    passes.settle()

    assert passes.attributes(BEGAN_NS)[semconv.DEVICE_PASSES] == 1
    assert cuda.made == 3


def test_a_device_that_never_comes_to_it_is_bounded_and_said(
    timer: DeviceTimer, cuda: FakeCuda
) -> None:
    passes = timer.passes()
    for _ in range(MOST_PENDING + 5):
        run(passes, cuda, 1e6)

    passes.abandon()

    assert passes.attributes(BEGAN_NS) == {semconv.DEVICE_UNMEASURED: MOST_PENDING + 5}
    assert cuda.made <= 2 * MOST_PENDING + 1 + (MOST_PENDING * MS // 2) // ANCHOR_NS


PASSES = st.lists(
    st.tuples(
        st.floats(0, 50),  # of the device
        st.floats(0.01, 5),  # of the host, handing over
        st.floats(0, 20),  # of somebody else before
        st.floats(0, 3000),  # a pause behind
        st.booleans(),  # the host waits for the device
    ),
    min_size=1,
    max_size=30,
)


@given(PASSES, st.floats(1 - DRIFT, 1 + DRIFT))
def test_the_truth_lies_within_the_error_that_is_stated(
    script: list[tuple[float, float, float, float, bool]], pace: float
) -> None:
    clock = FakeClock(BEGAN_NS)
    cuda = FakeCuda(clock, pace)
    timer = DeviceTimer(cuda, clock)

    for device_ms, launch_ms, others_ms, pause_ms, waits in script:
        cuda.work(others_ms)
        passes = timer.passes()
        passes.begin()
        true_start_ns = max(cuda.free_ns, clock())
        cuda.work(device_ms)
        clock.move_s(launch_ms / 1e3)
        passes.end()
        true_end_ns = max(cuda.free_ns, clock())
        if waits:
            cuda.wait()
        clock.move_s(pause_ms / 1e3)
        if not passes.settle():
            continue
        noted = passes.attributes(BEGAN_NS)
        error_ns = noted.get(semconv.DEVICE_ERROR)
        if isinstance(error_ns, int):
            allowed_ns = error_ns + 5_000  # steps of float32
            assert noted[semconv.DEVICE_START] == pytest.approx(
                true_start_ns - BEGAN_NS, abs=allowed_ns
            )
            assert noted[semconv.DEVICE_END] == pytest.approx(
                true_end_ns - BEGAN_NS, abs=allowed_ns
            )
