"""Mastra: the conventions, operations of its own, and when the first chunk came."""

from latencytrace.analysis.dialects.engine import Asked, Engine, Generation
from latencytrace.analysis.dialects.engine_times import Reading
from latencytrace.model import Span, Stage, semconv

_SCOPE = "@mastra/"
_OPERATIONS = {
    "agent_step": Stage.UNATTRIBUTED,
    "model_chunk": Stage.REMOTE_MODEL,  # a part of the call that it lies in
    "model_generation": Stage.UNATTRIBUTED,  # all steps of an agent
    "workflow_step": Stage.UNATTRIBUTED,
}


def _stage(span: Span) -> Stage | None:
    operation = span.attributes.get(semconv.GEN_AI_OPERATION_NAME)
    return _OPERATIONS.get(operation) if isinstance(operation, str) else None


def _generation(span: Span) -> Generation:
    began_ns = Reading(span).moment(semconv.MASTRA_FIRST_CHUNK)
    # Each call of an agent tells the first of all: only that of the first one lies within it.
    is_own = began_ns is not None and 0 <= began_ns <= span.end_ns - span.start_ns
    return Generation(first_token_ns=began_ns if is_own else None)


ENGINE = Engine(
    name="Mastra",
    scopes=(_SCOPE,),
    stage=_stage,
    generation=_generation,
    reported_in=frozenset({semconv.MASTRA_FIRST_CHUNK}),
    asks=Asked(words=frozenset(_OPERATIONS)),
)
