"""Work of spans on GPUs of late, held for the join with the GPUs' counters."""

from collections.abc import Iterable, Sequence
from typing import Final

from latencytrace.analysis.trace.stage_of import stage_of
from latencytrace.model import Span, semconv
from latencytrace.model.gpu import DeviceWork
from latencytrace.model.span import Attributes


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


MAX_WORKS: Final = 50_000
KEPT_NS: Final = 3_600_000_000_000  # as long as the windows of the GPUs


class DeviceWorks:
    """Holds each piece of work once, the newest `MAX_WORKS` of the last hour."""

    def __init__(self) -> None:
        self._works: dict[tuple[str, str], DeviceWork] = {}  # in order of arrival

    def add(self, spans: Iterable[Span]) -> None:
        """Note the spans among these that had a GPU do something."""
        for span in spans:
            work = device_work(span)
            if work is not None:
                self._works.pop((work.trace_id, work.span_id), None)
                self._works[work.trace_id, work.span_id] = work
        while len(self._works) > MAX_WORKS:
            self._works.pop(next(iter(self._works)), None)

    def gpus(self) -> list[str]:
        return sorted({work.gpu for work in list(self._works.values())})

    def on(self, gpu: str) -> Sequence[DeviceWork]:
        """The work on one GPU, of the hour before its last."""
        works = [work for work in list(self._works.values()) if work.gpu == gpu]
        latest_ns = max((work.end_ns for work in works), default=0)
        return [work for work in works if work.end_ns > latest_ns - KEPT_NS]
