"""Strands Agents: the conventions, the time of the first token in ms, and why an answer ended."""

from latencytrace.analysis.dialects.engine import Engine, Generation
from latencytrace.analysis.dialects.engine_times import Reading
from latencytrace.model import Span, semconv

_ANSWER = "gen_ai.choice"


def _generation(span: Span) -> Generation:
    return Generation(
        first_token_ns=Reading(span).milliseconds(semconv.STRANDS_FIRST_CHUNK_MS),
        finish_reason=_finish_reason(span),
    )


def _finish_reason(span: Span) -> str | None:
    """The finish reason in the event of an answer; the answers of tools have none."""
    reasons = [
        event.attributes.get(semconv.STRANDS_FINISH_REASON)
        for event in span.events
        if event.name == _ANSWER
    ]
    return next((one for one in reversed(reasons) if isinstance(one, str) and one), None)


ENGINE = Engine(
    name="Strands",
    scopes=("strands",),
    generation=_generation,
    reported_in=frozenset({semconv.STRANDS_FIRST_CHUNK_MS}),
)
