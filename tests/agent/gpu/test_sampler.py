"""One thread for all GPUs: on a clock that the tests move, and for real."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Queue

import pytest

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.gpu.reader import Detail, GpuReader
from latencytrace.agent.gpu.sampler import GpuSampler
from latencytrace.agent.gpu.watch import MachineLock
from latencytrace.agent.guard import raise_fault
from latencytrace.errors import GpuUnavailableError
from latencytrace.model.gpu import GpuSample
from tests.support.fakes.contracts import FakeClock, ScriptedGpuReader
from tests.support.servers.command_line import python
from tests.support.waiting import PATIENCE_S

INTERVAL_NS = 200_000_000
FORKING = Path(__file__).parents[2] / "support" / "programs" / "forking_sampler.py"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(5_000_000_000)


@pytest.fixture
def reader(clock: FakeClock) -> ScriptedGpuReader:
    return ScriptedGpuReader(clock)


def sampler(
    reader: GpuReader,
    clock: Callable[[], int],
    folder: Path,
    take: Callable[[Sequence[GpuSample]], None] = lambda _: None,
) -> GpuSampler:
    return GpuSampler(
        lambda: [reader],
        take,
        lock=MachineLock("gpu", folder),
        interval_ns=INTERVAL_NS,
        now_ns=clock,
        on_fault=raise_fault,
    )


def run(one: GpuSampler, clock: FakeClock, seconds: float) -> None:
    """Let time pass as its thread would."""
    until_ns = clock() + round(seconds * 1e9)
    while clock() < until_ns:
        due_ns = one.step()
        clock.now_ns = until_ns if due_ns is None else min(max(due_ns, clock()), until_ns)
    one.step()


def test_it_reads_on_the_grid_and_each_level_at_its_own_pace(
    reader: ScriptedGpuReader, clock: FakeClock, tmp_path: Path
) -> None:
    one = sampler(reader, clock, tmp_path)

    run(one, clock, 20)
    one.close()

    assert reader.read_at_ns == [5_000_000_000 + k * INTERVAL_NS for k in range(101)]
    assert reader.details.count(Detail.RARE) == 3
    assert reader.details.count(Detail.SLOW) == 18


def test_samples_are_handed_on(
    reader: ScriptedGpuReader, clock: FakeClock, tmp_path: Path
) -> None:
    taken: list[GpuSample] = []
    one = sampler(reader, clock, tmp_path, taken.extend)

    run(one, clock, 1)
    one.close()

    assert len(taken) == len(reader.read_at_ns) == 6
    assert one.state.why_not is None


def test_a_slow_driver_is_asked_more_seldom(
    reader: ScriptedGpuReader, clock: FakeClock, tmp_path: Path
) -> None:
    reader.takes_s = 0.1
    one = sampler(reader, clock, tmp_path)

    run(one, clock, 60)
    one.close()

    assert one.state.interval_ns == 32 * INTERVAL_NS
    assert len(reader.read_at_ns) < 30


def test_what_can_never_be_read_ends_it(
    reader: ScriptedGpuReader, clock: FakeClock, tmp_path: Path
) -> None:
    reader.refusals = [GpuUnavailableError("no driver is installed", is_final=True)]
    one = sampler(reader, clock, tmp_path)

    assert one.step() is None
    assert (one.state.is_over, one.state.why_not) == (True, "no driver is installed")


def test_what_cannot_be_read_yet_is_tried_again_ever_more_seldom(
    reader: ScriptedGpuReader, clock: FakeClock, tmp_path: Path
) -> None:
    reader.refusals = [GpuUnavailableError("not loaded", is_final=False)] * 3
    one = sampler(reader, clock, tmp_path)

    run(one, clock, 29)
    early = reader.calls.count("open")
    run(one, clock, 400)
    one.close()

    assert (early, reader.calls.count("open")) == (1, 4)
    assert one.state.why_not is None


def test_no_gpu_at_all_is_a_reason_and_may_change(
    reader: ScriptedGpuReader, clock: FakeClock, tmp_path: Path
) -> None:
    devices, reader.devices = reader.devices, []
    one = sampler(reader, clock, tmp_path)
    run(one, clock, 1)
    why_not = one.state.why_not
    reader.devices = devices

    run(one, clock, 60)
    one.close()

    assert why_not == "the driver shows no GPU to this process"
    assert one.state.why_not is None


def test_when_every_gpu_is_lost_it_opens_anew_later(
    reader: ScriptedGpuReader, clock: FakeClock, tmp_path: Path
) -> None:
    one = sampler(reader, clock, tmp_path)
    run(one, clock, 1)
    reader.fails = GpuUnavailableError("lost", is_final=False)
    run(one, clock, 1)
    lost = one.state.why_not

    run(one, clock, 60)
    one.close()

    assert lost == "lost"
    assert reader.calls == ["open", "close", "open", "close"]
    assert one.state.why_not is None


def test_of_two_samplers_on_a_machine_one_reads_until_it_ends(
    reader: ScriptedGpuReader, clock: FakeClock, tmp_path: Path
) -> None:
    other = ScriptedGpuReader(clock)
    first, second = sampler(reader, clock, tmp_path), sampler(other, clock, tmp_path)
    first.step()
    second.step()
    waiting = (list(other.calls), second.state.why_not)

    first.close()
    clock.move_s(10)
    second.step()
    second.close()

    assert waiting == ([], "another process of this user reads them")
    assert other.calls == ["open", "close"]


@pytest.fixture
def hanging() -> Iterator[threading.Event]:
    """Set: what hangs goes on."""
    event = threading.Event()
    yield event
    event.set()


class HangingReader(ScriptedGpuReader):
    """Its calls hang, as those of a broken driver do."""

    def __init__(self, going_on: threading.Event) -> None:
        super().__init__(FakeClock())
        self.is_hanging = threading.Event()
        self._going_on = going_on

    def read(self, detail: Detail) -> Sequence[GpuSample]:
        """Hang."""
        self.is_hanging.set()
        self._going_on.wait()
        return super().read(detail)


def test_a_call_that_hangs_holds_nobody_up_and_is_seen(
    hanging: threading.Event, tmp_path: Path
) -> None:
    reader = HangingReader(hanging)
    one = sampler(reader, monotonic_ns, tmp_path)
    one.start()
    assert reader.is_hanging.wait(PATIENCE_S)

    one.stop(0.05)

    assert one.state.tick_since_ns is not None


def test_its_thread_reads_and_ends_when_told(tmp_path: Path) -> None:
    taken: Queue[GpuSample] = Queue()
    reader = ScriptedGpuReader(FakeClock())
    one = sampler(reader, monotonic_ns, tmp_path, lambda samples: taken.put(samples[0]))

    one.start()
    taken.get(timeout=PATIENCE_S)
    one.stop(PATIENCE_S)

    assert reader.calls == ["open", "close"]


def test_a_forked_child_begins_anew_and_leaves_the_reading_to_its_parent(tmp_path: Path) -> None:
    done = python(FORKING, tmp_path, check=True)

    assert done.stdout.splitlines() == [
        "",  # no thread, until it is asked for what it has read
        "open,reset_after_fork",
        "another process of this user reads them",
    ]
