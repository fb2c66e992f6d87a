"""Google's Agent Development Kit: the conventions, and the names of its versions before 2."""

from latencytrace.analysis.dialects.engine import Asked, Engine
from latencytrace.model import Span, Stage

_SCOPE = "gcp.vertex.agent"
_AGENT = "agent_run ["


def _stage(span: Span) -> Stage | None:
    return Stage.UNATTRIBUTED if span.name.startswith(_AGENT) else None


ENGINE = Engine(
    name="Google ADK",
    scopes=(_SCOPE,),
    knows=lambda span: span.scope == _SCOPE,
    stages={
        "invocation": Stage.UNATTRIBUTED,
        "call_llm": Stage.REMOTE_MODEL,
        "send_data": Stage.REMOTE_MODEL,  # to a model that listens
    },
    stage=_stage,
    asks=Asked(words=frozenset({_SCOPE}), starts=(_AGENT,)),
)
