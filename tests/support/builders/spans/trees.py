"""Spans and traces of tests, short to write; a span's id is its name."""

from collections.abc import Iterable, Mapping

from latencytrace.analysis.build_trace import build_traces
from latencytrace.model import AttributeValue, Segment, Span, SpanKind, Stage, Trace, semconv

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
ROOT = "root"


def span(
    name: str,
    start_ns: int,
    end_ns: int,
    *,
    parent: str | None = ROOT,
    stage: Stage | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
    service: str = "rag",
    attributes: Mapping[str, AttributeValue] | None = None,
) -> Span:
    """A span whose id is its name."""
    noted = dict(attributes or {})
    if stage is not None:
        noted[semconv.STAGE] = stage.value
    return Span(
        trace_id=TRACE_ID,
        span_id=name,
        parent_id=parent,
        name=name,
        kind=kind,
        service=service,
        start_ns=start_ns,
        end_ns=end_ns,
        attributes=noted,
    )


def root(end_ns: int = 100, attributes: Mapping[str, AttributeValue] | None = None) -> Span:
    """The server span of a request that starts at 0."""
    return span(ROOT, 0, end_ns, parent=None, kind=SpanKind.SERVER, attributes=attributes)


def request(*below: Span, end_ns: int = 100) -> Trace:
    """The outermost request, from 0 to `end_ns`, with these spans below it."""
    return build_traces([root(end_ns), *below])[0]


def stretches(segments: Iterable[Segment]) -> list[tuple[str, int, int]]:
    """The name, start and end of each segment."""
    return [(segment.name, segment.start_ns, segment.end_ns) for segment in segments]
