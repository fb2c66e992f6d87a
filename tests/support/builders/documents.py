"""Documents of the API's shape, small enough to add up by hand."""

from typing import cast

from latencytrace.model import FirstTokenOf, RequestStatus, Stage
from latencytrace.model.detail import TraceDetail
from latencytrace.service.answers.documents import (
    BreakdownDocument,
    QuantilesDocument,
    RequestDocument,
    SegmentDocument,
    SpanDocument,
)
from latencytrace.service.answers.gpu_documents import GpuDocument, GpusDocument, GpuStageDocument

MS = 1_000_000


def quantiles(mean_ns: int) -> QuantilesDocument:
    return QuantilesDocument(
        mean=mean_ns, p50=mean_ns, p90=mean_ns, p95=mean_ns, p99=mean_ns, p999=mean_ns
    )


def breakdown_document(**stages_ns: int) -> BreakdownDocument:
    whole_ns = sum(stages_ns.values())
    return BreakdownDocument(
        requests=4,
        attributed_ratio=0.95,
        duration_ns=quantiles(whole_ns),
        time_to_first_token_ns=quantiles(20 * MS),
        first_tokens_of_model=0,
        time_per_output_token_ns=quantiles(3 * MS),
        output_tokens_per_second=333.0,
        stages=[
            {
                "stage": Stage(stage),
                "mean_ns": mean_ns,
                "share_ratio": mean_ns / whole_ns,
                "p50_ns": mean_ns,
                "p95_ns": mean_ns,
                "p99_ns": mean_ns,
                "requests": 4,
                "parts": [],
            }
            for stage, mean_ns in stages_ns.items()
        ],
        after=None,
        left_out={"health": 3, "startup": 0, "reduced_detail": 0, "unsure": 0},
        max_concurrency=2,
        reduced_requests=0,
        quantile_error_ratio=0.0,
    )


def no_requests() -> BreakdownDocument:
    return BreakdownDocument(
        requests=0,
        attributed_ratio=None,
        duration_ns=None,
        time_to_first_token_ns=None,
        first_tokens_of_model=0,
        time_per_output_token_ns=None,
        output_tokens_per_second=None,
        stages=[],
        after=None,
        left_out={"health": 0, "startup": 0, "reduced_detail": 0, "unsure": 0},
        max_concurrency=None,
        reduced_requests=0,
        quantile_error_ratio=0.0,
    )


def segment(span_id: str, stage: str, start_ms: int, end_ms: int) -> SegmentDocument:
    return SegmentDocument(
        start_ns=start_ms * MS,
        end_ns=end_ms * MS,
        stage=Stage(stage),
        span_id=span_id,
        name=stage,
    )


def span(
    span_id: str, parent_id: str | None, name: str, stage: str, start_ms: int, end_ms: int
) -> SpanDocument:
    return SpanDocument(
        span_id=span_id,
        parent_id=parent_id,
        name=name,
        stage=Stage(stage),
        service="rag",
        instance=None,
        start_ns=start_ms * MS,
        end_ns=end_ms * MS,
        status="ok",
        error_type=None,
        attributes={},
        links=[],
        device=None,
    )


def request_document() -> RequestDocument:
    """A server span, an embedding below it, and a decode with detokenising inside."""
    return RequestDocument(
        trace_id="1f3c9a" + "0" * 26,
        span_id="aa",
        service="rag",
        instance=None,
        route="POST /chat",
        model="tiny",
        version=None,
        status=RequestStatus.OK,
        start="1763690000000000000",
        duration_ns=100 * MS,
        revision=1,
        weight=1,
        time_to_first_token_ns=30 * MS,
        time_to_first_token_of=FirstTokenOf.CALLER,
        model_time_to_first_token_ns=None,
        time_per_output_token_ns=7 * MS,
        input_tokens=400,
        cached_input_tokens=None,
        output_tokens=10,
        finish_reason=None,
        batch_size=None,
        queue_depth=None,
        concurrency=None,
        retries=0,
        preemptions=None,
        cold_start=None,
        detail=TraceDetail.FULL,
        ledger={
            Stage.UNATTRIBUTED: 10 * MS,
            Stage.EMBED: 20 * MS,
            Stage.DECODE: 60 * MS,
            Stage.DETOKENIZE: 10 * MS,
        },
        segments=[
            segment("aa", "unattributed", 0, 5),
            segment("bb", "embed", 5, 25),
            segment("cc", "decode", 25, 55),
            segment("cc", "detokenize", 55, 60),
            segment("cc", "decode", 60, 90),
            segment("cc", "detokenize", 90, 95),
            segment("aa", "unattributed", 95, 100),
        ],
        after={},
        spans=[
            span("aa", None, "POST /chat", "unattributed", 0, 100),
            span("bb", "aa", "encode", "embed", 5, 25),
            span("cc", "aa", "generate", "decode", 25, 95),
        ],
        error_type=None,
        error_span_id=None,
        profiles=[],
        started_by=[],
        spans_kept=True,
        shared_steps=[],
        shared_steps_left_out=0,
        inter_token_ns=None,
        stalls=None,
        network={},
        busy={},
        exclusive={},
        repairs=[{"kind": "clipped", "span_id": "cc", "detail": "ended 2 ms after its parent"}],
        attributes={},
        attributes_left_out=0,
    )


def gpu_document(**other: object) -> GpuDocument:
    """An H200 that decodes."""
    document = {
        "uuid": "GPU-a",
        "index": 0,
        "name": "NVIDIA H200",
        "vendor": "nvidia",
        "driver": "580.1",
        "parent_uuid": None,
        "silent_ns": 200 * MS,
        "bandwidth": {
            "method": "gpm",
            "utilization_ratio": 0.61,
            "bytes_per_second": 3.0e12,
            "peak_bytes_per_second": 4.917e12,
        },
        "kernel_active_ratio": 0.97,
        "engine_active_ratio": 0.9,
        "sm_active_ratio": 0.8,
        "sm_occupancy_ratio": 0.5,
        "pipes": {"tensor_any": 0.05},
        "memory_used_bytes": 90e9,
        "memory_total_bytes": 150e9,
        "power_watts": 512.0,
        "energy_joules": 1e6,
        "temperatures_celsius": {"gpu": 61.0},
        "clocks_hertz": {"sm": 1.98e9},
        "clock_events": [],
        "pcie_bytes_per_second": {},
        "nvlink_bytes_per_second": {},
        "ecc_errors": {},
        "xid_errors": {},
    }
    return cast(GpuDocument, {**document, **other})


def gpu_stage(**other: object) -> GpuStageDocument:
    """What decoding does on it."""
    document = {
        "uuid": "GPU-a",
        "service": "rag",
        "model": "tiny",
        "stage": "decode",
        "bound": "memory_bandwidth",
        "confidence": "high",
        "notes": [],
        "spans": 10,
        "wall_ns": 10 * 60 * MS,
        "device_ns": 10 * 54 * MS,
        "launch_ns": 10 * 6 * MS,
        "queue_ns": 0,
        "windows": 5,
        "coverage_ratio": 1.0,
        "used": {
            "bandwidth_ratio": {"ratio": 0.61, "error_ratio": 0.004},
            "tensor_ratio": {"ratio": 0.05, "error_ratio": 0.002},
        },
        "modelled_bandwidth_ratio": None,
        "modelled_tensor_ratio": None,
    }
    return cast(GpuStageDocument, {**document, **other})


def gpus_document() -> GpusDocument:
    """One GPU and the decoding on it."""
    return GpusDocument(gpus=[gpu_document()], stages=[gpu_stage()])
