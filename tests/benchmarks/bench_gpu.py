"""What reading GPUs costs, and what timing a pass on one adds to it; without a GPU.

The sampler runs the real binding on a fake of NVIDIA's library, whose calls return at once:
what is measured is our own cost and the binding's, not the driver's. The device timer runs on
events that cost nothing: our own part, to which CUDA's two records and four questions come.

    python tests/benchmarks/bench_gpu.py
"""

import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import pynvml
import torch

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.device.timer import DeviceTimer
from latencytrace.agent.gpu.readers.nvml.reader import NvmlReader
from latencytrace.agent.gpu.report import GpuReport
from latencytrace.agent.gpu.sampler import RARE_AFTER_NS, SLOW_AFTER_NS, GpuSampler
from latencytrace.agent.gpu.watch import MachineLock
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.hooks.torch_copies import TorchCopiesHook
from latencytrace.agent.timing.hook import HookOptions
from latencytrace.model.gpu import GpuSample
from latencytrace.settings import DEFAULT_GPU_INTERVAL_S
from tests.support.agent.hooked import hooked
from tests.support.builders.gpu_requests import KeepingSender
from tests.support.fakes import nvml as fake_nvml
from tests.support.fakes.contracts import FakeClock
from tests.support.fakes.nvml import FakeNvml

SECONDS = 200  # of the sampler's clock
PASSES = 20_000
ROUNDS = 5
PROMISED_RATIO = 0.005  # of one core


class NoEvent:
    """Is complete at once."""

    def query(self) -> bool:
        """See `DeviceEvent.query`."""
        return True

    def elapsed_time(self, end: "NoEvent", /) -> float:
        """See `DeviceEvent.elapsed_time`."""
        return 1.0


class NoEvents:
    """The events of no device at all, which cost nothing."""

    device_id = "none"

    def event(self) -> NoEvent:
        """See `DeviceEvents.event`."""
        return NoEvent()

    def record(self, event: NoEvent) -> None:
        """See `DeviceEvents.record`."""

    def is_capturing(self) -> bool:
        """See `DeviceEvents.is_capturing`."""
        return False

    def asking(self) -> AbstractContextManager[object]:
        """See `DeviceEvents.asking`."""
        return nullcontext()


def sampler_cost_s(nvml: FakeNvml, gpus: int) -> tuple[float, float]:
    """CPU seconds of sampling and of reporting so many GPUs, for each second of the clock."""
    nvml.reset(gpus)
    for gpu in range(gpus):
        nvml.rate(fake_nvml.DRAM, 61, gpu)
    clock = FakeClock(1_000_000_000_000)
    nvml.set_clock_s(clock() / 1e9)
    samples: list[GpuSample] = []
    with tempfile.TemporaryDirectory() as folder:
        sampler = GpuSampler(
            lambda: [NvmlReader(clock, nvml.path)],
            samples.extend,
            lock=MachineLock("bench", Path(folder)),
            interval_ns=round(DEFAULT_GPU_INTERVAL_S * 1e9),
            now_ns=clock,
            on_fault=raise_fault,
        )
        sampler.step()
        spent = 0.0
        for _ in range(round(SECONDS / DEFAULT_GPU_INTERVAL_S)):
            clock.move_s(DEFAULT_GPU_INTERVAL_S)
            nvml.set_clock_s(clock() / 1e9)
            began = time.thread_time()
            sampler.step()
            spent += time.thread_time() - began
        sampler.close()
    return spent / SECONDS, reporting_cost_s(samples, clock, sampler) / SECONDS


def reporting_cost_s(samples: Sequence[GpuSample], clock: FakeClock, sampler: GpuSampler) -> float:
    """CPU seconds of encoding all of these, in posts of a second each."""
    report = GpuReport({"service.name": "bench"}, KeepingSender(), clock)
    a_second = max(1, len(samples) // SECONDS)
    began = time.thread_time()
    for start in range(0, len(samples), a_second):
        report.add(samples[start : start + a_second])
        clock.move_s(1)
        report.send(sampler.state)
    return time.thread_time() - began


def pass_cost_ns(forward: Callable[[], object]) -> float:
    """What timing one pass adds to a call, the best of some rounds."""
    timer = DeviceTimer(NoEvents(), monotonic_ns)
    bare = timed = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(PASSES):
            forward()
        bare = min(bare, time.perf_counter() - began)
        passes = timer.passes()
        began = time.perf_counter()
        for _ in range(PASSES):
            passes.settle()
            passes.begin()
            forward()
            passes.end()
        timed = min(timed, time.perf_counter() - began)
    return (timed - bare) / PASSES * 1e9


def copy_cost_ns(*, uses_cuda: bool, in_request: bool) -> float:
    """What the hook of copies adds to a call of a tensor on the host that copies nothing."""
    tensor = torch.zeros(4)

    def best_s() -> float:
        return min(
            timeit.repeat(
                "tensor.to('cpu')", globals={"tensor": tensor}, number=PASSES, repeat=ROUNDS
            )
        )

    bare = best_s()
    before = torch.cuda.is_initialized
    torch.cuda.is_initialized = lambda: uses_cuda
    try:
        with hooked(TorchCopiesHook, options=HookOptions(torch_copies=True)) as spans:
            timing = spans.recorder.start("request")
            if in_request:
                timing.activate()
            timed = best_s()
            timing.deactivate()
    finally:
        torch.cuda.is_initialized = before
    return (timed - bare) / PASSES * 1e9


def main() -> int:
    """Print the numbers; 1: a promise is broken."""
    if fake_nvml.compiler() is None:
        print("skipped: the fake of NVIDIA's library needs a C compiler")
        return 0
    kept = True
    with tempfile.TemporaryDirectory() as folder:
        nvml = FakeNvml(fake_nvml.build(Path(folder)))
        pynvml.nvmlLib = nvml.library
        print(
            f"sampling every {DEFAULT_GPU_INTERVAL_S} s, more of it every "
            f"{SLOW_AFTER_NS / 1e9:g} and {RARE_AFTER_NS / 1e9:g} s; of one core:"
        )
        for gpus in (1, 8):
            reading, reporting = sampler_cost_s(nvml, gpus)
            print(f"  {gpus} GPU: reading {reading:.3%}, reporting {reporting:.3%}")
            kept = kept and (gpus > 1 or reading + reporting < PROMISED_RATIO)
    print(f"timing a pass on a device: {pass_cost_ns(lambda: None) / 1e3:.1f} us of ours")
    for uses_cuda, in_request in ((False, True), (True, False), (True, True)):
        cost_ns = copy_cost_ns(uses_cuda=uses_cuda, in_request=in_request)
        where = (
            f"CUDA {'in use' if uses_cuda else 'unused'}, {'in' if in_request else 'outside of'}"
        )
        print(f"a tensor's method that copies nothing, {where} a request: {cost_ns:.0f} ns more")
    print(f"promised, for one GPU: under {PROMISED_RATIO:.1%}: {'kept' if kept else 'BROKEN'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
