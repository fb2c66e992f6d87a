"""Logfire's instrumentations of model clients.

The span of a streamed call ends when the stream begins; a log, empty and at the stream's
end, tells how long the stream took, and the tokens.
"""

from dataclasses import replace

from latencytrace.analysis.dialects.engine import Asked, Engine
from latencytrace.analysis.dialects.engine_times import Reading
from latencytrace.model import Span, Stage, semconv


def _knows(span: Span) -> bool:
    return semconv.LOGFIRE_SPAN_TYPE in span.attributes


def _ran(span: Span) -> Span:
    """A log that tells of a stream, over the time that the stream took."""
    if (
        span.attributes.get(semconv.LOGFIRE_SPAN_TYPE) != "log"
        or semconv.GEN_AI_OPERATION_NAME not in span.attributes
    ):
        return span
    took_ns = Reading(span).seconds(semconv.LOGFIRE_DURATION)
    return span if took_ns is None else replace(span, start_ns=max(span.end_ns - took_ns, 0))


def _stage(span: Span) -> Stage | None:
    """A placeholder of a span under way explains nothing."""
    pending = span.attributes.get(semconv.LOGFIRE_SPAN_TYPE) == "pending_span"
    return Stage.UNATTRIBUTED if pending else None


ENGINE = Engine(
    name="Logfire",
    scopes=("logfire",),
    knows=_knows,
    stage=_stage,
    ran=_ran,
    asks=Asked(words=frozenset({"log", "pending_span"})),
)
