"""Triton Inference Server in OpenTelemetry mode at level TIMESTAMPS: all spans a server's.

A request holds a span for each of its models, a model's span one named `compute`; the
times are events on them.
"""

from collections.abc import Sequence

from latencytrace.analysis.dialects.engine import Engine, Times
from latencytrace.analysis.dialects.engine_times import between
from latencytrace.model import Interval, Span, Stage, semconv

_REQUEST, _COMPUTE = "InferRequest", "compute"
_RECEIVED = (("HTTP_RECV_START", "HTTP_RECV_END"), ("GRPC_WAITREAD_START", "GRPC_WAITREAD_END"))
_SENT = (("HTTP_SEND_START", "HTTP_SEND_END"), ("GRPC_SEND_START", "GRPC_SEND_END"))


def _knows(span: Span) -> bool:
    return bool(span.scope) or semconv.TRITON_MODEL_NAME in span.attributes


def _times(span: Span, children: Sequence[Span]) -> Times:
    if span.name == _REQUEST:
        found = [
            *(part for events in _RECEIVED for part in between(span, Stage.NETWORK, *events)),
            *(part for events in _SENT for part in between(span, Stage.RESPOND, *events)),
        ]
    elif span.name == _COMPUTE:
        found = [
            *between(span, Stage.TRANSFER, "COMPUTE_START", "COMPUTE_INPUT_END"),
            *between(span, Stage.FORWARD, "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START"),
            *between(span, Stage.TRANSFER, "COMPUTE_OUTPUT_START", "COMPUTE_END"),
        ]
    else:
        found = _queue(span, children)
    return Times(intervals=tuple(found))


def _queue(model: Span, children: Sequence[Span]) -> list[Interval]:
    """From when a model's request was queued until it was computed; an ensemble is not."""
    queued_ns = [event.time_ns for event in model.events if event.name == "QUEUE_START"]
    computed_ns = [child.start_ns for child in children if child.name == _COMPUTE]
    if not queued_ns or not computed_ns:
        return []
    start_ns, end_ns = max(min(queued_ns), model.start_ns), min(computed_ns)
    if start_ns >= end_ns:
        return []
    return [Interval(stage=Stage.QUEUE, start_ns=start_ns, end_ns=end_ns)]


ENGINE = Engine(
    name="Triton",
    scopes=("triton-server",),
    knows=_knows,
    stages={_REQUEST: Stage.UNATTRIBUTED, _COMPUTE: Stage.FORWARD},
    times=_times,
)
