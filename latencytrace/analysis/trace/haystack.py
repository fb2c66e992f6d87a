"""The spans of Haystack, whose tracer a program calls as it likes: known by their names."""

from latencytrace.analysis.dialects.asked import Asked
from latencytrace.model import Span, Stage, semconv

_STAGES = {
    "haystack.agent.hook": Stage.UNATTRIBUTED,
    "haystack.agent.run": Stage.UNATTRIBUTED,
    "haystack.agent.step": Stage.UNATTRIBUTED,
    "haystack.agent.step.llm": Stage.REMOTE_MODEL,
    "haystack.agent.step.tool": Stage.TOOL,
    "haystack.chat_generator.run": Stage.REMOTE_MODEL,
    "haystack.pipeline.run": Stage.UNATTRIBUTED,
}
_COMPONENT = "haystack.component.run"
_COMPONENTS = {  # how the names of their types end
    "Agent": Stage.UNATTRIBUTED,
    "Builder": Stage.PREPROCESS,
    "Embedder": Stage.EMBED,
    "Generator": Stage.REMOTE_MODEL,
    "Joiner": Stage.UNATTRIBUTED,
    "Ranker": Stage.RERANK,
    "Retriever": Stage.RETRIEVE,
    "Router": Stage.UNATTRIBUTED,
    "ToolInvoker": Stage.TOOL,
    "WebSearch": Stage.RETRIEVE,
}
ASKED = Asked(words=frozenset({*_STAGES, _COMPONENT}), ends=tuple(_COMPONENTS))


def haystack_stage(span: Span) -> Stage | None:
    """The stage of what a pipeline or an agent runs; None: it is not Haystack's."""
    if span.name != _COMPONENT:
        return _STAGES.get(span.name)
    found = span.attributes.get(semconv.HAYSTACK_COMPONENT_TYPE)
    of_type = found if isinstance(found, str) else ""
    return next((stage for end, stage in _COMPONENTS.items() if of_type.endswith(end)), None)
