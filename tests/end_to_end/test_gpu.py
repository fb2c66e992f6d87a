"""GPUs and the work on them, from what agents send to what is answered."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from latencytrace.model import Span, semconv
from latencytrace.model.gpu.sample import (
    BandwidthMethod,
    ClockEvent,
    GpuMetric,
    GpuSample,
    Pipe,
    Reading,
)
from latencytrace.model.gpu.window import DeviceWork, GpuWindow
from tests.support.builders.gpu_requests import request
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.fakes.contracts import GPU
from tests.support.servers.running_service import RunningService
from tests.support.simulation.simulated_gpu import LLM, SimulatedGpu
from tests.support.waiting import until

SECONDS = 30
STEP = 200  # samples a post


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    with RunningService(tmp_path / "data") as running:
        yield running


def sample(window: GpuWindow) -> GpuSample:
    """The sample that a window came in."""
    readings = [
        Reading(GpuMetric.BANDWIDTH_UTILIZATION, window.bandwidth_ratio or 0, BandwidthMethod.GPM),
        Reading(GpuMetric.PIPE_ACTIVE, window.tensor_ratio or 0, Pipe.TENSOR_ANY),
        Reading(GpuMetric.PIPE_ACTIVE, window.fp32_ratio or 0, Pipe.FP32),
        Reading(GpuMetric.SM_ACTIVE, window.sm_ratio or 0),
        Reading(GpuMetric.ENGINE_ACTIVE, window.engine_ratio or 0),
        Reading(GpuMetric.CLOCK_EVENT, 0.0, ClockEvent.HW_THERMAL),
    ]
    return GpuSample(
        device=GPU, start_ns=window.start_ns, end_ns=window.end_ns, readings=tuple(readings)
    )


def span(work: DeviceWork) -> Span:
    """The span that work was noted on: it began 1 ms before its work did."""
    return one_span(
        f"a{work.trace_id[1:]}",  # no id may be all zeros
        f"a{work.span_id[1:]}",
        name=work.stage.value,
        start_ns=work.start_ns - 1_000_000,
        end_ns=work.end_ns,
        attributes={
            semconv.STAGE: work.stage.value,
            semconv.GEN_AI_REQUEST_MODEL: "tiny",
            semconv.DEVICE_ID: GPU.uuid,
            semconv.DEVICE_START: 1_000_000,
            semconv.DEVICE_END: 1_000_000 + work.end_ns - work.start_ns,
            semconv.DEVICE_DURATION: work.device_ns,
            semconv.DEVICE_LAUNCH: work.launch_ns,
            semconv.DEVICE_ERROR: 20_000,
        },
    )


def test_stages_of_requests_are_judged_by_what_their_gpu_counted(service: RunningService) -> None:
    gpu = SimulatedGpu(3, start_ns=time.time_ns() - (SECONDS + 60) * 1_000_000_000)
    gpu.run(SECONDS)
    samples = [sample(window) for window in gpu.windows()]
    spans = [span(work) for work in gpu.work]

    for at in range(0, len(samples), STEP):
        posted = service.post(
            request(samples[at : at + STEP]).SerializeToString(), path="/v1/metrics"
        )
        assert posted.is_success
    service.post(otlp(*spans))

    def judged() -> dict[str, Any] | None:
        rows = {row["stage"]: row for row in answered(service)["stages"]}
        return rows if sum(row["spans"] for row in rows.values()) == len(gpu.work) else None

    rows = until(judged, service.said)
    assert {stage: row["bound"] for stage, row in rows.items()} == {
        "prefill": "compute",
        "decode": "memory_bandwidth",
    }
    for stage, truth in LLM.items():
        used = rows[stage.value]["used"]
        assert used["bandwidth_ratio"]["ratio"] == pytest.approx(
            truth["bandwidth_ratio"], abs=0.03
        )
        assert used["tensor_ratio"]["ratio"] == pytest.approx(truth["tensor_ratio"], abs=0.03)
    (shown,) = answered(service)["gpus"]
    assert (shown["uuid"], shown["bandwidth"]["method"]) == ("GPU-a", "gpm")
    assert service.metric("latencytrace_gpu_memory_bandwidth_utilization_ratio") > 0
    (of_request,) = cast("list[dict[str, Any]]", service.request(spans[0].trace_id)["spans"])
    assert of_request["device"]["start_ns"] == 1_000_000
    assert of_request["device"]["queue_ns"] is None


def answered(service: RunningService) -> dict[str, Any]:
    return service.ask("/gpu")
