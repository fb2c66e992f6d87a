"""LiteLLM, callback `otel`: a span a model call, made when it is over; the proxy's own steps.

`raw_gen_ai_request` repeats the call's span with what was sent. The span of the proxy's
request, or of the call where spans are typed (`LITELLM_OTEL_V2`), is started in a dependency
of FastAPI's and goes on when that is over.
"""

from collections.abc import Mapping

from latencytrace.analysis.dialects.engine import Asked, Engine
from latencytrace.model import Span, SpanKind, Stage, semconv

_REQUEST = "Received Proxy Server Request"
_SERVICES: Mapping[str, Stage] = {  # the proxy's helpers, each in a span of its name
    "redis": Stage.CACHE,
    "postgres": Stage.DATABASE,
    "batch_write_to_db": Stage.DATABASE,
    "auth": Stage.PREPROCESS,
    "proxy_pre_call": Stage.PREPROCESS,
    "self": Stage.UNATTRIBUTED,
    "router": Stage.UNATTRIBUTED,
}
_CONVENTIONS = frozenset({"chat", "embeddings", "execute_tool", "invoke_agent"})
_OPERATIONS = {  # the others generate; those of the proxy begin with `a`, as in `acompletion`
    "embedding": Stage.EMBED,
    "moderation": Stage.GUARDRAIL,
    "rerank": Stage.RERANK,
    "search": Stage.RETRIEVE,
}
_STARTS = {  # of the typed spans, which end in what they are for
    "auth ": Stage.PREPROCESS,
    "route ": Stage.UNATTRIBUTED,
    "execute_guardrail ": Stage.GUARDRAIL,
    "redis.": Stage.CACHE,
    "postgres.": Stage.DATABASE,
}


def _knows(span: Span) -> bool:
    return bool(span.scope) or semconv.LITELLM_CALL_ID in span.attributes


def _stage(span: Span) -> Stage | None:
    operation = span.attributes.get(semconv.GEN_AI_OPERATION_NAME)
    if isinstance(operation, str):
        if semconv.LITELLM_CALL_ID not in span.attributes or operation in _CONVENTIONS:
            return None  # what the conventions say of it
        return _OPERATIONS.get(operation.removeprefix("a"), Stage.REMOTE_MODEL)
    for start, stage in _STARTS.items():
        if span.name.startswith(start):
            return stage
    return None


def _outlives(span: Span) -> bool:
    """The proxy's request, or, where its spans are typed, the call to the model."""
    return span.name == _REQUEST or (
        span.kind is SpanKind.CLIENT and semconv.GEN_AI_OPERATION_NAME in span.attributes
    )


ENGINE = Engine(
    name="LiteLLM",
    scopes=("litellm",),
    knows=_knows,
    stages={
        **_SERVICES,
        _REQUEST: Stage.UNATTRIBUTED,
        "guardrail": Stage.GUARDRAIL,
    },
    stage=_stage,
    steps=frozenset({"raw_gen_ai_request"}),
    outlives=_outlives,
    asks=Asked(
        words=_CONVENTIONS | _OPERATIONS.keys() | {f"a{one}" for one in _OPERATIONS},
        starts=tuple(_STARTS),
    ),
)
