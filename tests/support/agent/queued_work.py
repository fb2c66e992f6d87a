"""A request that sends work to a queue, and what its trace must say of it."""

from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import Span, SpanKind, Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text

_NOTED = (semconv.STAGE, semconv.RUNTIME_GAPS)


def as_received(span: RecordedSpan) -> Span:
    """A span as the service gets it."""
    return Span(
        trace_id=f"{span.trace_id:032x}",
        span_id=f"{span.span_id:016x}",
        parent_id=f"{span.parent_id:016x}" if span.parent_id else None,
        name=span.name,
        kind=SpanKind[span.kind.name],
        service="program",
        start_ns=span.started_ns,
        end_ns=span.ended_ns,
        attributes={key: span.attributes[key] for key in _NOTED if key in span.attributes},
    )


def check_waited(spans: Spans, name: str, work_name: str | None = None) -> None:
    """Assert that the span `request` sent work of a name, whose wait is its time in the queue.

    Args:
        spans: All that there are.
        name: As it is sent.
        work_name: As a worker begins with it, if that is another.
    """
    work_name = work_name or name
    made = {span.name: span for span in spans.all}
    assert sorted(spans.names) == sorted([f"send {name}", work_name, "request"])
    sending, work, request = made[f"send {name}"], made[work_name], made["request"]
    assert (sending.kind.name, work.kind.name) == ("PRODUCER", "CONSUMER")
    assert (sending.trace_id, sending.parent_id) == (request.trace_id, request.span_id)
    assert (work.trace_id, work.parent_id) == (request.trace_id, sending.span_id)
    (ledger,) = requests_of(map(as_received, (sending, work, request)), {})
    waited_ns = work.started_ns - sending.ended_ns
    assert ledger.ledger[Stage.QUEUE] == waited_ns + sending.ended_ns - sending.started_ns


def check_message(spans: Spans, system: str, destination: str) -> None:
    """Assert the same of a message of the request, and that its content is nowhere.

    Args:
        spans: All that there are.
        system: As the conventions name it.
        destination: The topic or the queue.
    """
    check_waited(spans, destination, f"process {destination}")
    named = {
        semconv.MESSAGING_SYSTEM: system,
        semconv.MESSAGING_DESTINATION_NAME: destination,
    }
    assert dict(spans.all[0].attributes).items() >= named.items()
    assert "secret" not in attribute_text(spans)
