"""LiteLLM, callback `otel`: a span a model call, made when it is over; the proxy's own steps.

`raw_gen_ai_request` repeats the call's span with what was sent.
"""

from collections.abc import Mapping

from latencytrace.analysis.engine import Engine
from latencytrace.model import Span, Stage, semconv

_SERVICES: Mapping[str, Stage] = {  # the proxy's helpers, each in a span of its name
    "redis": Stage.CACHE,
    "postgres": Stage.DATABASE,
    "batch_write_to_db": Stage.DATABASE,
    "auth": Stage.PREPROCESS,
    "proxy_pre_call": Stage.PREPROCESS,
    "self": Stage.UNATTRIBUTED,
    "router": Stage.UNATTRIBUTED,
}
_STARTS = {  # of the typed spans, which end in what they are for
    "execute_guardrail ": Stage.GUARDRAIL,
    "redis.": Stage.CACHE,
    "postgres.": Stage.DATABASE,
}


def _knows(span: Span) -> bool:
    return bool(span.scope) or semconv.LITELLM_CALL_ID in span.attributes


def _stage(span: Span) -> Stage | None:
    if semconv.GEN_AI_OPERATION_NAME in span.attributes:
        return None  # what the conventions say of it
    for start, stage in _STARTS.items():
        if span.name.startswith(start):
            return stage
    return None


ENGINE = Engine(
    name="LiteLLM",
    scopes=("litellm",),
    knows=_knows,
    stages={
        **_SERVICES,
        "Received Proxy Server Request": Stage.UNATTRIBUTED,
        "guardrail": Stage.GUARDRAIL,
    },
    stage=_stage,
    steps=frozenset({"raw_gen_ai_request"}),
)
