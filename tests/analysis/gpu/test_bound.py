"""What held a stage up, by the rule and in its order."""

from dataclasses import replace

import pytest

from latencytrace.analysis.gpu.bound import (
    Bound,
    Confidence,
    DeviceTimes,
    Peaks,
    verdict,
)
from latencytrace.analysis.gpu.join import DeviceUse, Estimate, Kind, device_use
from latencytrace.model.stage import Stage
from tests.support.simulation.simulated_gpu import SimulatedGpu, piece

MS = 1_000_000


def times(
    wall_ms: int = 100, device_ms: int = 90, launch_ms: int = 10, queue_ms: int | None = 0
) -> DeviceTimes:
    queue_ns = None if queue_ms is None else queue_ms * MS
    return DeviceTimes(
        wall_ns=wall_ms * MS,
        device_ns=device_ms * MS,
        launch_ns=launch_ms * MS,
        queue_ns=queue_ns,
    )


def use(
    bandwidth: float | None = 0.1,
    tensor: float | None = 0.1,
    *,
    coverage: float = 1.0,
    foreign: float = 0.0,
    throttled: float = 0.0,
) -> DeviceUse:
    told = {"bandwidth_ratio": bandwidth, "tensor_ratio": tensor, "fp32_ratio": 0.01}
    return DeviceUse(
        used={name: Estimate(ratio, 0.01) for name, ratio in told.items() if ratio is not None},
        window_count=100,
        coverage_ratio=coverage,
        foreign_ratio=foreign,
        throttled_ratio=throttled,
    )


@pytest.mark.parametrize(
    ("measured", "used", "bound", "confidence"),
    [
        (times(), use(0.61, 0.05), Bound.MEMORY_BANDWIDTH, Confidence.HIGH),
        (times(), use(0.28, 0.72), Bound.COMPUTE, Confidence.HIGH),
        (times(launch_ms=85), use(0.28, 0.72), Bound.COMPUTE, Confidence.HIGH),
        (times(launch_ms=85), use(), Bound.LAUNCH_OR_SYNC, Confidence.MEDIUM),
        (times(), use(), Bound.LATENCY_OR_MIXED, Confidence.MEDIUM),
        (times(device_ms=20), use(0.9, 0.9), Bound.GPU_IDLE, Confidence.MEDIUM),
        (times(launch_ms=85), DeviceUse(), Bound.LAUNCH_OR_SYNC, Confidence.LOW),
        (times(), DeviceUse(), Bound.UNKNOWN, Confidence.NONE),
        (times(), use(0.61, 0.05, coverage=0.4), Bound.UNKNOWN, Confidence.NONE),
        (times(), use(0.61, 0.05, foreign=0.6), Bound.UNKNOWN, Confidence.NONE),
        (times(launch_ms=85), use(foreign=0.6), Bound.UNKNOWN, Confidence.NONE),
        (times(), use(None, 0.72), Bound.UNKNOWN, Confidence.NONE),
        (times(device_ms=0), use(0.61, 0.05), Bound.UNKNOWN, Confidence.NONE),
    ],
    ids=[
        "near the roof of memory",
        "near the roof of arithmetic",
        "near a roof though the host is slow",
        "far from both and fed slowly",
        "far from both and fed fast",
        "mostly without work",
        "no counters and fed slowly",
        "no counters",
        "counters that saw too little",
        "counters of others' work",
        "times of others' work",
        "half of the counters",
        "no device time",
    ],
)
def test_the_rule(
    measured: DeviceTimes, used: DeviceUse, bound: Bound, confidence: Confidence
) -> None:
    judged = verdict(measured, used)

    assert (judged.bound, judged.confidence) == (bound, confidence)


PEAK = 1e12
PEAKS = Peaks(bytes_per_s=PEAK, flops_per_s=100 * PEAK)


@pytest.mark.parametrize(
    ("moved", "bound", "confidence"),
    [
        (0.7, Bound.MEMORY_BANDWIDTH, Confidence.MEDIUM),
        (0.2, Bound.UNKNOWN, Confidence.NONE),  # a lower bound: it may have been any amount
        (1.4, Bound.UNKNOWN, Confidence.NONE),  # not all of them were read, then
    ],
)
def test_without_counters_the_bytes_that_must_move_can_tell(
    moved: float, bound: Bound, confidence: Confidence
) -> None:
    moving = replace(times(), moved_bytes=round(moved * PEAK * 0.09))

    judged = verdict(moving, DeviceUse(), peaks=PEAKS)

    assert (judged.bound, judged.confidence) == (bound, confidence)


@pytest.mark.parametrize(
    ("moved", "computed", "bound", "confidence"),
    [
        (0.1, 0.7, Bound.COMPUTE, Confidence.LOW),
        (0.74, 0.7, Bound.COMPUTE, Confidence.LOW),  # nearer, of what each of them reaches
        (0.8, 0.7, Bound.MEMORY_BANDWIDTH, Confidence.MEDIUM),
        (0.1, 0.4, Bound.UNKNOWN, Confidence.NONE),
        (0.1, 1.4, Bound.UNKNOWN, Confidence.NONE),
    ],
)
def test_without_counters_what_must_be_computed_can_tell_too(
    moved: float, computed: float, bound: Bound, confidence: Confidence
) -> None:
    working = replace(
        times(), moved_bytes=round(moved * PEAK * 0.09), flops=round(computed * PEAK * 9)
    )

    judged = verdict(working, DeviceUse(), peaks=PEAKS)

    assert (judged.bound, judged.confidence) == (bound, confidence)
    assert ("modelled" in judged.notes) is (bound is not Bound.UNKNOWN)


def test_work_near_a_roof_is_not_held_up_by_the_host_that_launches_it() -> None:
    fed_slowly = times(launch_ms=85)
    computing = replace(fed_slowly, flops=round(0.7 * PEAK * 9))

    assert verdict(fed_slowly, DeviceUse(), peaks=PEAKS).bound is Bound.LAUNCH_OR_SYNC
    assert verdict(computing, DeviceUse(), peaks=PEAKS).bound is Bound.COMPUTE


def test_counters_are_believed_before_a_model() -> None:
    moving = replace(times(), moved_bytes=round(0.7 * PEAK * 0.09))

    assert verdict(moving, use(0.28, 0.72), peaks=PEAKS).bound is Bound.COMPUTE


def test_without_a_peak_nothing_is_modelled() -> None:
    moving = replace(times(), moved_bytes=round(0.7 * PEAK * 0.09))

    assert verdict(moving, DeviceUse()).bound is Bound.UNKNOWN


def test_copies_are_bound_by_copying() -> None:
    assert verdict(times(), DeviceUse(), copies=True).bound is Bound.COPY


def test_what_else_there_was_is_said() -> None:
    notes = verdict(times(queue_ms=30), use(0.61, 0.05, foreign=0.2, throttled=0.5)).notes

    assert notes == ("throttled", "foreign_load", "queued")


def test_of_a_simulated_workload_prefill_computes_and_decode_waits_for_memory() -> None:
    gpu = SimulatedGpu(7)
    gpu.run(60)

    found = device_use(gpu.windows(), gpu.work)
    bounds = {
        stage: verdict(
            DeviceTimes.of([one for one in gpu.work if one.stage is stage]),
            found[Kind("rag", "tiny", stage)],
        ).bound
        for stage in (Stage.PREFILL, Stage.DECODE)
    }

    assert bounds == {Stage.PREFILL: Bound.COMPUTE, Stage.DECODE: Bound.MEMORY_BANDWIDTH}


def test_times_of_several_pieces_add_up() -> None:
    work = [piece(Stage.DECODE, 0, 100 * MS), piece(Stage.DECODE, 200 * MS, 250 * MS)]

    assert DeviceTimes.of(work) == times(wall_ms=150, device_ms=150, launch_ms=15, queue_ms=None)
