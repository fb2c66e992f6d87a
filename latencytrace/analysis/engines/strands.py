"""Strands Agents: the conventions, the time of the first token in ms, and why an answer ended."""

from latencytrace.analysis.dialects.engine import Engine, Generation, text_of
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
    answers = [event.attributes for event in reversed(span.events) if event.name == _ANSWER]
    reasons = (text_of(one, semconv.STRANDS_FINISH_REASON) for one in answers)
    return next(filter(None, reasons), None)


ENGINE = Engine(
    name="Strands",
    scopes=("strands",),
    generation=_generation,
    reported_in=frozenset({semconv.STRANDS_FIRST_CHUNK_MS}),
)
