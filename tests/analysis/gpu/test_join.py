"""What each stage used of a GPU, recovered from windows that mix them."""

from dataclasses import replace
from math import sqrt
from statistics import mean, stdev

import pytest

from latencytrace.analysis.gpu.join import (
    FEWEST_WINDOWS,
    DeviceUse,
    Kind,
    device_use,
    window_shares,
)
from latencytrace.model.gpu import DeviceWork
from latencytrace.model.stage import Stage
from tests.support.simulation.simulated_gpu import LLM, MS, SimulatedGpu, piece

SEEDS = range(5)


def use_of(gpu: SimulatedGpu, stage: Stage) -> DeviceUse:
    return device_use(gpu.windows(), gpu.work)[Kind("rag", "tiny", stage)]


@pytest.mark.parametrize("window_ms", [105.0, 200.0])
@pytest.mark.parametrize("stage", LLM, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_truth_of_a_mixed_workload_is_recovered_within_three_points(
    seed: int, stage: Stage, window_ms: float
) -> None:
    gpu = SimulatedGpu(seed, window_ms=window_ms)
    gpu.run(60)

    use = use_of(gpu, stage)

    for counter in ("tensor_ratio", "bandwidth_ratio"):
        assert use.ratio(counter) == pytest.approx(LLM[stage][counter], abs=0.03)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("seconds", [1, 2, 4, 8, 16])
def test_what_is_told_of_a_short_run_is_right_too_or_not_told(seed: int, seconds: float) -> None:
    gpu = SimulatedGpu(seed, noise=0.03)
    gpu.run(seconds)

    told = {
        (kind.stage, counter): estimate
        for kind, use in device_use(gpu.windows(), gpu.work).items()
        for counter, estimate in use.used.items()
        if counter in LLM[kind.stage]
    }

    assert {
        key: round(estimate.ratio - LLM[key[0]][key[1]], 3)
        for key, estimate in told.items()
        if abs(estimate.ratio - LLM[key[0]][key[1]]) > 0.05
    } == {}


def test_an_interval_is_two_standard_errors_of_the_mean_where_one_kind_fills_all_windows() -> None:
    counted = [0.59, 0.61] * 6
    gpu = SimulatedGpu(1)
    gpu.work = [piece(Stage.DECODE, 0, (len(counted) + 1) * 200 * MS)]
    windows = [
        replace(window, bandwidth_ratio=ratio)
        for window, ratio in zip(gpu.windows(), counted, strict=True)
    ]

    found = device_use(windows, gpu.work)[Kind("rag", "tiny", Stage.DECODE)].used

    assert found["bandwidth_ratio"].ratio == pytest.approx(mean(counted))
    error = 2 * stdev(counted) / sqrt(len(counted))
    assert found["bandwidth_ratio"].error_ratio == pytest.approx(error)


def test_too_few_windows_tell_nothing() -> None:
    gpu = SimulatedGpu(1)
    gpu.run(FEWEST_WINDOWS * 0.2 - 0.8, [Stage.DECODE])

    assert use_of(gpu, Stage.DECODE).used == {}


def test_stages_that_always_come_together_are_not_told_apart() -> None:
    gpu = SimulatedGpu(1)
    gpu.run(60)
    # As if each pass served both, half and half.
    halves = [
        replace(one, stage=stage, device_ns=one.device_ns // 2)
        for one in gpu.work
        for stage in (Stage.PREFILL, Stage.DECODE)
    ]

    use = device_use(gpu.windows(), halves)

    assert [one.used for one in use.values()] == [{}, {}]


def test_windows_with_somebody_elses_work_are_left_out_and_said() -> None:
    gpu = SimulatedGpu(1)
    gpu.run(60)
    ours = gpu.work[: len(gpu.work) * 2 // 3] + gpu.work[-1:]
    others = gpu.work[len(ours) - 1 : -1]
    mixed = [*ours, *(one for at, one in enumerate(others) if at % 5 == 0)]

    use = device_use(gpu.windows(), mixed)[Kind("rag", "tiny", Stage.DECODE)]

    assert use.ratio("bandwidth_ratio") == pytest.approx(0.61, abs=0.03)
    assert use.foreign_ratio is not None
    assert use.foreign_ratio > 0.02


def test_a_gpu_without_counters_tells_nothing_but_that() -> None:
    gpu = SimulatedGpu(1)
    gpu.run(20)
    blind = [
        replace(window, bandwidth_ratio=None, tensor_ratio=None, fp32_ratio=None, sm_ratio=None)
        for window in gpu.windows()
    ]

    use = device_use(blind, gpu.work)[Kind("rag", "tiny", Stage.DECODE)]

    assert (dict(use.used), use.coverage_ratio) == ({}, 0.0)


def test_work_that_overlaps_shares_the_device() -> None:
    gpu = SimulatedGpu(1)
    gpu.run(20)
    kinds = [Kind("rag", "tiny", Stage.PREFILL), Kind("rag", "tiny", Stage.DECODE)]

    shares = window_shares(gpu.windows(), [*gpu.work, *gpu.work], kinds)

    assert shares.sum(axis=1).max() == pytest.approx(1.0)


def test_no_windows_at_all_are_no_answer() -> None:
    work = [piece(Stage.DECODE, 0, 100 * MS)]

    assert device_use([], work) == {Kind("rag", "tiny", Stage.DECODE): DeviceUse()}


def test_work_that_no_window_saw_is_not_covered() -> None:
    gpu = SimulatedGpu(1)
    gpu.run(20)
    windows = gpu.windows()
    seen = [window for at, window in enumerate(windows) if at % 3 == 0]

    use = device_use(seen, gpu.work)[Kind("rag", "tiny", Stage.DECODE)]

    assert use.coverage_ratio == pytest.approx(1 / 3, abs=0.05)


def test_a_stage_that_is_held_down_is_said_to_be() -> None:
    gpu = SimulatedGpu(1)
    gpu.run(20)
    slow = [replace(window, throttled=at % 2 == 0) for at, window in enumerate(gpu.windows())]

    use = device_use(slow, gpu.work)[Kind("rag", "tiny", Stage.DECODE)]

    assert use.throttled_ratio == pytest.approx(0.5, abs=0.15)


def test_many_kinds_are_bounded_to_those_with_most_work() -> None:
    gpu = SimulatedGpu(1)
    gpu.run(60)
    named: list[DeviceWork] = [
        replace(one, model=f"model-{at % 30}") for at, one in enumerate(gpu.work)
    ]

    assert len(device_use(gpu.windows(), named)) == 12
