"""LlamaIndex's own OpenTelemetry: a span for each method, named `Class.method`.

The span of a streamed answer ends when the stream begins: what it takes then is the caller's.
"""

from latencytrace.analysis.dialects.engine import Asked, Engine, Generation, text_of
from latencytrace.model import Span, Stage, semconv

_SCOPE = "llamaindex."
_MODEL_EVENTS = "LLM"
_METHODS = {
    **dict.fromkeys(("chat", "achat", "complete", "acomplete"), Stage.REMOTE_MODEL),
    **dict.fromkeys(("stream_chat", "astream_chat"), Stage.REMOTE_MODEL),
    **dict.fromkeys(("stream_complete", "astream_complete"), Stage.REMOTE_MODEL),
    **dict.fromkeys(("get_query_embedding", "aget_query_embedding"), Stage.EMBED),
    **dict.fromkeys(("get_text_embedding", "aget_text_embedding"), Stage.EMBED),
    **dict.fromkeys(("get_text_embedding_batch", "aget_text_embedding_batch"), Stage.EMBED),
    **dict.fromkeys(("retrieve", "aretrieve"), Stage.RETRIEVE),
    **dict.fromkeys(("postprocess_nodes", "apostprocess_nodes"), Stage.RERANK),
    **dict.fromkeys(("call", "acall"), Stage.TOOL),
    **dict.fromkeys(("split_text", "split_text_metadata_aware"), Stage.PREPROCESS),
}
_BY_NAME = {f".{method}": stage for method, stage in _METHODS.items()}
_BY_NAME |= {f"._{method}": stage for method, stage in _METHODS.items()}


def _stage(span: Span) -> Stage:
    """Return the stage of a step; steps of the framework itself have none."""
    _, dot, method = span.name.rpartition(".")
    return _BY_NAME.get(f"{dot}{method}", Stage.UNATTRIBUTED)


def _generation(span: Span) -> Generation:
    said = (event.attributes for event in span.events if event.name.startswith(_MODEL_EVENTS))
    found = (
        text_of(one, semconv.LLAMA_INDEX_MODEL, semconv.LLAMA_INDEX_MODEL_OLD) for one in said
    )
    return Generation(model=next(filter(None, found), None))


ENGINE = Engine(
    name="LlamaIndex",
    scopes=(_SCOPE,),
    stage=_stage,
    generation=_generation,
    reported_in=frozenset(),
    asks=Asked(ends=tuple(_BY_NAME)),
)
