"""Strands Agents: the conventions, and the time of the first token in milliseconds."""

from latencytrace.analysis.dialects.engine import Engine, Generation
from latencytrace.analysis.dialects.engine_times import Reading
from latencytrace.model import Span, semconv


def _generation(span: Span) -> Generation:
    return Generation(first_token_ns=Reading(span).milliseconds(semconv.STRANDS_FIRST_CHUNK_MS))


ENGINE = Engine(name="Strands", scopes=("strands",), generation=_generation)
