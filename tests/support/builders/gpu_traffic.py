"""What agents send of a simulated GPU: its samples, and the spans of the work on it."""

from latencytrace.model import Span, semconv
from latencytrace.model.gpu import (
    BandwidthMethod,
    ClockEvent,
    DeviceWork,
    GpuMetric,
    GpuSample,
    GpuWindow,
    Pipe,
    Reading,
)
from tests.support.builders.spans.otlp_messages import one_span
from tests.support.fakes.contracts import GPU


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
