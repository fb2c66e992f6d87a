"""NVIDIA's GPUs: the real binding on a fake of the library, whose clock the tests move."""

import math
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pynvml
import pytest

from latencytrace.agent.gpu.reader import Detail
from latencytrace.agent.gpu.readers.nvml.reader import NvmlReader
from latencytrace.errors import GpuUnavailableError
from latencytrace.model.gpu import BandwidthMethod, ClockEvent, GpuMetric, GpuSample, Pipe
from tests.support.fakes import nvml as fake_nvml
from tests.support.fakes.contracts import FakeClock
from tests.support.fakes.nvml import FakeNvml
from tests.support.servers.command_line import python

PEAK = 6144 / 8 * 2 * 3201e6  # of an H200, in bytes per second
GPM = BandwidthMethod.GPM
FORKING = Path(__file__).parents[4] / "support" / "programs" / "forking_reader.py"


class Machine:
    """A reader and the GPUs it reads, on one clock."""

    def __init__(self, nvml: FakeNvml, at_ns: int = 1_000_000_000_000) -> None:
        self.nvml = nvml
        self.clock = FakeClock(at_ns)
        nvml.set_clock_s(self.clock.now_ns / 1e9)
        self.reader = NvmlReader(self.clock, nvml.path)

    def after_s(self, seconds: float, detail: Detail = Detail.FAST) -> Sequence[GpuSample]:
        """What is read then."""
        self.clock.move_s(seconds)
        self.nvml.set_clock_s(self.clock.now_ns / 1e9)
        return self.reader.read(detail)


@pytest.fixture
def machine(nvml: FakeNvml) -> Iterator[Machine]:
    machine = Machine(nvml)
    yield machine
    machine.reader.close()
    assert nvml.live_gpm_samples == 0


def test_a_gpu_that_counts_tells_the_mean_between_two_looks(machine: Machine) -> None:
    machine.reader.open()
    machine.after_s(0)
    machine.nvml.rate(fake_nvml.DRAM, 80)
    machine.nvml.rate(fake_nvml.TENSOR, 10)
    machine.after_s(0.05)  # too soon: nothing is read, and nothing lost
    machine.nvml.rate(fake_nvml.DRAM, 0)

    (sample,) = machine.after_s(0.05 + 0.1)

    assert sample.value(GpuMetric.BANDWIDTH_UTILIZATION, GPM) == pytest.approx(0.2)
    assert sample.value(GpuMetric.PIPE_ACTIVE, Pipe.TENSOR_ANY) == pytest.approx(0.1)
    assert sample.value(GpuMetric.BANDWIDTH, GPM) == pytest.approx(0.2 * PEAK)
    assert (sample.start_ns, sample.end_ns) == (1_000_000_000_000, 1_000_200_000_000)


def test_the_first_look_has_no_window_and_claims_none(machine: Machine) -> None:
    machine.reader.open()

    (sample,) = machine.after_s(0)

    assert sample.start_ns is None
    assert sample.value(GpuMetric.SM_ACTIVE) is None


def test_everything_else_has_its_unit(machine: Machine) -> None:
    machine.nvml.set("power_mw", 250_000)
    machine.nvml.set("reasons", 0x4 | 0x40)
    machine.nvml.set("ecc_uncorr", 3)
    machine.nvml.set("util_gpu", 97)
    machine.reader.open()

    (sample,) = machine.after_s(2, Detail.RARE)

    assert sample.value(GpuMetric.POWER) == 250
    assert sample.value(GpuMetric.ENERGY) == pytest.approx(500)
    assert sample.value(GpuMetric.KERNEL_ACTIVE) == 0.97
    assert sample.value(GpuMetric.MEMORY_TOTAL) == 150754820096
    assert sample.value(GpuMetric.MEMORY_USED) == 1073741824
    assert sample.value(GpuMetric.MEMORY_RESERVED) == 665190400
    assert sample.value(GpuMetric.TEMPERATURE, "gpu") == 30
    assert sample.value(GpuMetric.TEMPERATURE, "memory") == 35
    assert sample.value(GpuMetric.CLOCK, "sm") == 345e6
    assert sample.value(GpuMetric.CLOCK, "memory") == 3201e6
    assert sample.value(GpuMetric.CLOCK_EVENT, ClockEvent.SW_POWER_CAP) == 1
    assert sample.value(GpuMetric.CLOCK_EVENT, ClockEvent.IDLE) == 0
    assert sample.value(GpuMetric.ECC_ERRORS, "uncorrected") == 3
    assert sample.value(GpuMetric.BANDWIDTH_PEAK) == pytest.approx(PEAK)
    assert sample.value(GpuMetric.TENSOR_PEAK) == pytest.approx(132 * 4096 * 1.98e9)


def test_energy_is_counted_from_where_the_clock_is_set_however_long_this_machine_runs(
    nvml: FakeNvml,
) -> None:
    machine = Machine(nvml, at_ns=10**18)
    machine.nvml.set("power_mw", 250_000)
    machine.reader.open()

    (sample,) = machine.after_s(2, Detail.RARE)
    machine.reader.close()

    assert sample.value(GpuMetric.ENERGY) == pytest.approx(500)


def test_a_quick_tick_asks_for_little(machine: Machine) -> None:
    machine.reader.open()

    machine.after_s(0.2)

    assert machine.nvml.calls("nvmlDeviceGetPowerUsage") == 0
    assert machine.nvml.calls("nvmlDeviceGetClockInfo") == 1


def test_a_gpu_older_than_hopper_tells_no_bandwidth_rather_than_none_used(
    machine: Machine,
) -> None:
    machine.nvml.set("gpm", 0)
    machine.reader.open()
    machine.after_s(0)

    (sample,) = machine.after_s(0.2, Detail.RARE)

    assert sample.value(GpuMetric.BANDWIDTH_UTILIZATION, GPM) is None
    assert sample.value(GpuMetric.BANDWIDTH, GPM) is None
    assert sample.value(GpuMetric.KERNEL_ACTIVE) == 0


def test_two_gpus_are_two_samples(machine: Machine) -> None:
    machine.nvml.reset(2)
    machine.nvml.set_clock_s(machine.clock.now_ns / 1e9)

    devices = machine.reader.open()
    samples = machine.after_s(0.2)

    assert [device.index for device in devices] == [0, 1]
    assert [sample.device for sample in samples] == devices


def test_a_machine_without_gpus_is_an_answer(machine: Machine) -> None:
    machine.nvml.reset(0)

    assert machine.reader.open() == []


@pytest.mark.parametrize(
    ("code", "says", "is_final"),
    [
        (fake_nvml.NO_DRIVER, "not loaded", False),
        (fake_nvml.MISMATCH, "upgraded", True),
        (fake_nvml.NO_PERMISSION, "permissions", True),
        (fake_nvml.UNKNOWN, "error 999", False),
    ],
    ids=["no driver", "version mismatch", "no permission", "unknown"],
)
def test_a_driver_that_refuses_is_told_with_the_way_out(
    machine: Machine, code: int, says: str, *, is_final: bool
) -> None:
    machine.nvml.fails("nvmlInitWithFlags", code)

    with pytest.raises(GpuUnavailableError, match=says) as raised:
        machine.reader.open()

    assert raised.value.is_final == is_final


def test_without_the_library_nothing_is_imported_or_tried() -> None:
    reader = NvmlReader(FakeClock(), "libthere-is-none.so.1")

    with pytest.raises(GpuUnavailableError, match="no NVIDIA driver") as raised:
        reader.open()

    assert raised.value.is_final


def test_a_number_the_device_does_not_know_is_asked_for_once(machine: Machine) -> None:
    machine.nvml.metric_fails(fake_nvml.TENSOR, fake_nvml.NOT_SUPPORTED)
    machine.nvml.rate(fake_nvml.DRAM, 50)
    machine.reader.open()
    machine.after_s(0)

    machine.after_s(0.2)
    (sample,) = machine.after_s(0.2)

    assert sample.value(GpuMetric.PIPE_ACTIVE, Pipe.TENSOR_ANY) is None
    assert sample.value(GpuMetric.BANDWIDTH_UTILIZATION, GPM) == pytest.approx(0.5)
    assert machine.reader.errors["nvmlGpmMetricsGet", "metric_5"] == 1


@pytest.mark.parametrize("value", [math.nan, -1, 140], ids=["NaN", "negative", "140 %"])
def test_what_is_no_share_is_no_reading(machine: Machine, value: float) -> None:
    machine.reader.open()
    machine.after_s(0)
    machine.nvml.rate(fake_nvml.DRAM, value)
    machine.nvml.rate(fake_nvml.SM, 40)

    (sample,) = machine.after_s(0.2)

    assert sample.value(GpuMetric.BANDWIDTH_UTILIZATION, GPM) is None
    assert sample.value(GpuMetric.BANDWIDTH, GPM) is None
    assert sample.value(GpuMetric.SM_ACTIVE) == pytest.approx(0.4)
    assert machine.reader.errors["nvmlGpmMetricsGet", "no_number"] == 1


def test_a_value_that_means_no_value_is_no_reading(machine: Machine) -> None:
    machine.nvml.set("power_mw", 0xFFFF_FFFF)
    machine.reader.open()

    (sample,) = machine.after_s(0.2, Detail.SLOW)

    assert sample.value(GpuMetric.POWER) is None


def test_a_gpu_lost_in_flight_leaves_the_others(machine: Machine) -> None:
    machine.nvml.reset(2)
    machine.nvml.set_clock_s(machine.clock.now_ns / 1e9)
    machine.reader.open()
    machine.nvml.fails("nvmlGpmSampleGet", fake_nvml.GPU_LOST, times=1)

    samples = machine.after_s(0.2)

    assert [sample.device.index for sample in samples] == [1]
    assert machine.reader.errors["nvmlGpmSampleGet", "gpu_is_lost"] == 1


def test_when_the_last_gpu_is_lost_the_reader_says_so(machine: Machine) -> None:
    machine.reader.open()
    machine.nvml.fails("nvmlGpmSampleGet", fake_nvml.GPU_LOST)

    with pytest.raises(GpuUnavailableError, match="no NVIDIA GPU answers"):
        machine.after_s(0.2)


def test_a_driver_unloaded_in_flight_is_no_gpu_lost_but_all(machine: Machine) -> None:
    machine.reader.open()
    machine.nvml.fails("nvmlDeviceGetClockInfo", fake_nvml.MISMATCH)

    with pytest.raises(GpuUnavailableError, match="upgraded"):
        machine.after_s(0.2)


def test_a_reading_that_is_forbidden_is_asked_for_once(machine: Machine) -> None:
    machine.nvml.fails("nvmlDeviceGetPowerUsage", fake_nvml.NO_PERMISSION)
    machine.reader.open()

    samples = [machine.after_s(1, Detail.SLOW)[0] for _ in range(5)]

    assert {sample.value(GpuMetric.POWER) for sample in samples} == {None}
    assert machine.nvml.calls("nvmlDeviceGetPowerUsage") == 1
    assert machine.reader.errors["nvmlDeviceGetPowerUsage", "no_permission"] == 1


def test_a_reading_that_fails_again_and_again_is_asked_for_ever_more_seldom(
    machine: Machine,
) -> None:
    machine.nvml.fails("nvmlDeviceGetPowerUsage", fake_nvml.UNKNOWN)
    machine.reader.open()

    for _ in range(100):
        machine.after_s(1, Detail.SLOW)

    assert machine.nvml.calls("nvmlDeviceGetPowerUsage") < 10


def test_a_reading_that_failed_once_is_there_again_at_the_next_tick(machine: Machine) -> None:
    machine.nvml.fails("nvmlDeviceGetPowerUsage", fake_nvml.UNKNOWN, times=1)
    machine.reader.open()
    machine.after_s(1, Detail.SLOW)

    (sample,) = machine.after_s(1, Detail.SLOW)

    assert sample.value(GpuMetric.POWER) == 75


def test_a_window_across_a_failure_is_left_out(machine: Machine) -> None:
    machine.reader.open()
    machine.after_s(0)
    machine.nvml.fails("nvmlGpmSampleGet", fake_nvml.UNKNOWN, times=1)
    machine.after_s(0.2)

    (sample,) = machine.after_s(0.2)

    assert sample.start_ns is None


def test_a_driver_before_535_tells_its_clocks_by_the_old_name(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", raising=False)
    machine.nvml.set("reasons", 0x20)
    machine.reader.open()

    (sample,) = machine.after_s(0.2)

    assert sample.value(GpuMetric.CLOCK_EVENT, ClockEvent.SW_THERMAL) == 1


def test_a_driver_before_515_tells_its_memory_by_the_old_form(machine: Machine) -> None:
    machine.nvml.fails("nvmlDeviceGetMemoryInfo_v2", fake_nvml.NO_FUNCTION)
    machine.reader.open()

    (sample,) = machine.after_s(1, Detail.SLOW)

    assert sample.value(GpuMetric.MEMORY_USED) == 1073741824 + 665190400
    assert sample.value(GpuMetric.MEMORY_RESERVED) is None


def test_an_instance_of_a_divided_gpu_tells_its_own_shares_and_memory(machine: Machine) -> None:
    machine.nvml.set("mig", 2)
    machine.nvml.instance_rate(1, fake_nvml.DRAM, 60)
    whole, first, second = machine.reader.open()
    machine.after_s(0)

    samples = {sample.device.uuid: sample for sample in machine.after_s(0.2, Detail.RARE)}

    assert first.parent_uuid == second.parent_uuid == whole.uuid
    assert second.uuid.startswith("MIG-")
    share = samples[second.uuid].value(GpuMetric.BANDWIDTH_UTILIZATION, GPM)
    assert share == pytest.approx(0.6)
    # Its peak is a part of the GPU's that nobody tells.
    assert samples[second.uuid].value(GpuMetric.BANDWIDTH, GPM) is None
    assert samples[second.uuid].value(GpuMetric.MEMORY_TOTAL) == 150754820096 / 8
    assert samples[whole.uuid].value(GpuMetric.POWER) == 75
    assert samples[whole.uuid].value(GpuMetric.KERNEL_ACTIVE) is None


def test_a_fault_that_the_driver_reports_is_counted_with_its_gpu(machine: Machine) -> None:
    machine.nvml.reset(2)
    machine.nvml.set_clock_s(machine.clock.now_ns / 1e9)
    machine.reader.open()
    machine.nvml.xid(79, gpu=1)

    first, second = machine.after_s(1, Detail.SLOW)

    assert first.value(GpuMetric.XID_ERRORS, "79") is None
    assert second.value(GpuMetric.XID_ERRORS, "79") == 1


def test_every_opening_is_paired_with_a_closing(machine: Machine) -> None:
    for _ in range(3):
        machine.reader.open()
        machine.after_s(0.2)
        machine.reader.close()

    assert machine.nvml.live_gpm_samples == 0
    assert machine.nvml.calls("nvmlInitWithFlags") == machine.nvml.calls("nvmlShutdown") == 3


def test_a_call_that_hangs_leaves_the_interpreter_to_others(machine: Machine) -> None:
    machine.reader.open()
    machine.nvml.hangs("nvmlDeviceGetClockInfo", 0.3)
    reading = threading.Thread(target=machine.reader.read, args=[Detail.FAST])
    turns = 0

    reading.start()
    while reading.is_alive():
        turns += 1
    reading.join()

    assert turns > 100  # had it held the interpreter, hardly one


def test_a_forked_child_reads_only_once_it_has_begun_anew(nvml: FakeNvml) -> None:
    done = python(FORKING, nvml.path, check=True)

    assert done.stdout.splitlines() == [
        "the parent's state is not the child's",
        "child finds 1",
        "parent reads 1",
    ]
