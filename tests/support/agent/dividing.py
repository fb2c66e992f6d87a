"""What the service would make of the spans that a traced program sent."""

from latencytrace.analysis.build_trace import build_traces
from latencytrace.model import AttributeValue, Span, SpanKind, Trace
from tests.support.agent.receiving import ReceivedSpan, TracedProgram

_KINDS = {kind.name: kind for kind in SpanKind}


def traces_of(program: TracedProgram) -> tuple[Trace, ...]:
    """The requests of the one trace that was sent."""
    return build_traces(span_of(span) for span in program.spans())


def span_of(sent: ReceivedSpan) -> Span:
    attributes: dict[str, AttributeValue] = {
        key: value for key, value in sent.attributes.items() if not isinstance(value, dict | tuple)
    }
    return Span(
        trace_id=sent.trace_id,
        span_id=sent.span_id,
        parent_id=sent.parent_id,
        name=sent.name,
        kind=_KINDS[sent.kind.name],
        service=str(sent.resource["service.name"]),
        start_ns=sent.start_ns,
        end_ns=sent.end_ns,
        attributes=attributes,
    )
