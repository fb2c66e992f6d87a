"""The work that a span had a GPU do, as the agent's device timer noted it on the span."""

from latencytrace.analysis.trace.stage_of import stage_of
from latencytrace.model import semconv
from latencytrace.model.gpu import DeviceWork
from latencytrace.model.span import Attributes, Span


def device_work(span: Span) -> DeviceWork | None:
    """The work; None: the span had none, or it was not measured."""
    attributes = span.attributes
    gpu = attributes.get(semconv.DEVICE_ID)
    device_ns = _whole(attributes, semconv.DEVICE_DURATION)
    start_ns = _whole(attributes, semconv.DEVICE_START)
    end_ns = _whole(attributes, semconv.DEVICE_END)
    if not isinstance(gpu, str) or device_ns is None or start_ns is None or end_ns is None:
        return None
    if end_ns <= start_ns or device_ns <= 0:
        return None
    model = attributes.get(semconv.GEN_AI_REQUEST_MODEL)
    weight_bytes = _whole(attributes, semconv.WEIGHT_BYTES)
    pass_flops = _whole(attributes, semconv.MODEL_FLOPS)
    passes = _whole(attributes, semconv.DEVICE_PASSES)
    return DeviceWork(
        trace_id=span.trace_id,
        span_id=span.span_id,
        service=span.service,
        model=model if isinstance(model, str) else None,
        stage=stage_of(span),
        gpu=gpu,
        start_ns=span.start_ns + start_ns,
        end_ns=span.start_ns + end_ns,
        device_ns=min(device_ns, end_ns - start_ns),
        wall_ns=max(span.end_ns - span.start_ns, end_ns - start_ns),
        launch_ns=_whole(attributes, semconv.DEVICE_LAUNCH) or 0,
        queue_ns=_whole(attributes, semconv.DEVICE_QUEUE_DELAY),
        error_ns=_whole(attributes, semconv.DEVICE_ERROR),
        moved_bytes=passes * weight_bytes if passes and weight_bytes else None,
        flops=passes * pass_flops if passes and pass_flops else None,
    )


def _whole(attributes: Attributes, key: str) -> int | None:
    value = attributes.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
