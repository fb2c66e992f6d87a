"""GPUs and the work on them, from what agents send to what is answered."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.builders.gpu_requests import request
from tests.support.builders.gpu_traffic import sample, span
from tests.support.builders.spans.otlp_messages import otlp
from tests.support.servers.running_service import RunningService
from tests.support.simulation.simulated_gpu import LLM, SimulatedGpu
from tests.support.waiting import until

SECONDS = 30
STEP = 200  # samples a post


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    with RunningService(tmp_path / "data") as running:
        yield running


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
