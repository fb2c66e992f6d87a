"""GPUs and the work on them as documents."""

from dataclasses import replace

import orjson
import pytest
from pydantic import TypeAdapter

from latencytrace.model import Span, Stage, semconv
from latencytrace.model.gpu import GpuMetric, Reading
from latencytrace.service.answers import gpu_answers
from latencytrace.service.answers.gpu_documents import GpusDocument
from latencytrace.service.reports.device_works import MAX_WORKS, DeviceWorks
from latencytrace.service.reports.gpus import SILENT_NS, GpuReports
from tests.support.builders.gpu_requests import SECOND_NS, request, sample
from tests.support.fakes.contracts import GPU, FakeClock

MS = 1_000_000
PEAK = 1e12
OLD_GPU = replace(GPU, name="NVIDIA A100")


def decoding(number: int = 1, **more: int) -> Span:
    """Half a second of it, 90 % on the device, its weights 60 times from memory."""
    return Span(
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        parent_id=None,
        name="decode",
        service="rag",
        start_ns=10 * SECOND_NS,
        end_ns=10 * SECOND_NS + 500 * MS,
        attributes={
            semconv.STAGE: Stage.DECODE.value,
            semconv.GEN_AI_REQUEST_MODEL: "tiny",
            semconv.DEVICE_ID: GPU.uuid,
            semconv.DEVICE_START: MS,
            semconv.DEVICE_END: 499 * MS,
            semconv.DEVICE_DURATION: 450 * MS,
            semconv.DEVICE_LAUNCH: 100 * MS,
            semconv.DEVICE_PASSES: 60,
            semconv.WEIGHT_BYTES: 5_000_000_000,
            **more,
        },
    )


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1000 * SECOND_NS)


@pytest.fixture
def old_gpu(clock: FakeClock) -> GpuReports:
    """One without counters, whose peak is known."""
    reports = GpuReports(clock)
    told = (Reading(GpuMetric.BANDWIDTH_PEAK, PEAK), Reading(GpuMetric.KERNEL_ACTIVE, 0.97))
    reports.take(request([replace(sample(device=OLD_GPU), start_ns=None, readings=told)]))
    return reports


def test_a_gpu_without_counters_is_judged_by_what_must_move(old_gpu: GpuReports) -> None:
    works = DeviceWorks()
    works.add([decoding()])

    document = gpu_answers.gpus(old_gpu, works)

    TypeAdapter(GpusDocument).validate_json(orjson.dumps(document), strict=True)
    (gpu,), (stage,) = document["gpus"], document["stages"]
    assert (gpu["name"], gpu["bandwidth"]) == ("NVIDIA A100", None)
    assert stage["modelled_bandwidth_ratio"] == pytest.approx(60 * 5e9 / 0.45 / PEAK)
    assert (stage["bound"], stage["confidence"]) == ("memory_bandwidth", "medium")
    assert stage["used"] == {}


def test_a_gpu_without_counters_is_judged_by_what_must_be_computed(old_gpu: GpuReports) -> None:
    peak = Reading(GpuMetric.TENSOR_PEAK, 312e12)
    old_gpu.take(request([replace(sample(device=OLD_GPU), start_ns=None, readings=(peak,))]))
    works = DeviceWorks()
    few = {semconv.WEIGHT_BYTES: 1_000_000, semconv.MODEL_FLOPS: 1_500_000_000_000}
    works.add([decoding(**few)])

    (stage,) = gpu_answers.gpus(old_gpu, works)["stages"]

    assert stage["modelled_tensor_ratio"] == pytest.approx(60 * 1.5e12 / 0.45 / 312e12)
    assert (stage["bound"], stage["confidence"]) == ("compute", "low")
    assert stage["notes"] == ["modelled"]


def test_a_gpu_that_fell_silent_tells_that_and_no_value(
    old_gpu: GpuReports, clock: FakeClock
) -> None:
    clock.now_ns += SILENT_NS + 1

    (gpu,) = gpu_answers.gpus(old_gpu, DeviceWorks())["gpus"]

    assert (gpu["silent_ns"], gpu["kernel_active_ratio"]) == (SILENT_NS + 1, None)


def test_work_on_a_gpu_that_nobody_reads_is_shown_too(clock: FakeClock) -> None:
    works = DeviceWorks()
    works.add([decoding()])

    document = gpu_answers.gpus(GpuReports(clock), works)

    assert document["gpus"] == []
    assert document["stages"][0]["bound"] == "unknown"


def test_a_span_that_comes_again_counts_once() -> None:
    works = DeviceWorks()

    works.add([decoding()])
    works.add([decoding()])

    assert len(works.on(GPU.uuid)) == 1


def test_work_is_bounded_the_oldest_makes_room() -> None:
    works = DeviceWorks()

    works.add(decoding(number) for number in range(MAX_WORKS + 2))

    kept = works.on(GPU.uuid)
    assert len(kept) == MAX_WORKS
    assert kept[0].span_id == f"{2:016x}"


@pytest.mark.parametrize(
    "odd",
    [
        {semconv.DEVICE_END: 0},
        {semconv.DEVICE_DURATION: -5},
        {semconv.DEVICE_DURATION: True},
        {semconv.DEVICE_START: -1},
    ],
    ids=["ends before it begins", "negative", "no number", "begins before its span"],
)
def test_what_cannot_be_is_no_work(odd: dict[str, int]) -> None:
    works = DeviceWorks()

    works.add([decoding(**odd)])

    assert works.gpus() == []
