"""Requests with their ledgers, as the analysis would make them."""

from collections.abc import Mapping

from latencytrace.model import Request, RequestStatus, Segment, Stage

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
START_NS = 1_763_690_000_123_456_789


def made_request(
    duration_ns: int = 100, stages: Mapping[Stage, int] | None = None, **more: object
) -> Request:
    """A request that spends its time in these stages, one after the other."""
    segments: list[Segment] = []
    start_ns = 0
    for stage, length_ns in (stages or {Stage.UNATTRIBUTED: duration_ns}).items():
        segments.append(
            Segment(
                start_ns=start_ns,
                end_ns=start_ns + length_ns,
                stage=stage,
                span_id=f"{len(segments) + 1:016x}",
                name=f"a span of {stage}",
            )
        )
        start_ns += length_ns
    fields: dict[str, object] = {
        "trace_id": TRACE,
        "span_id": SPAN,
        "outermost": True,
        "service": "rag",
        "instance": "rag-1",
        "route": "POST /chat",
        "model": "tiny",
        "version": "1.0",
        "status": RequestStatus.OK,
        "start_ns": START_NS,
        "duration_ns": start_ns,
        "revision": 1,
        "ledger": {segment.stage: segment.end_ns - segment.start_ns for segment in segments},
        "segments": tuple(segments),
    }
    return Request(**{**fields, **more})  # type: ignore[arg-type] # any field may be given
