"""Spans of calls of models behind an API: what all libraries' must have in common."""

from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text
from tests.support.model_apis.server import ModelApi

TOKENS = (  # that every server of ours counts
    (semconv.GEN_AI_USAGE_INPUT_TOKENS, 7),
    (semconv.GEN_AI_USAGE_OUTPUT_TOKENS, 3),
    (semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS, 4),
)


def the_call(spans: Spans, stage: Stage = Stage.REMOTE_MODEL) -> RecordedSpan:
    """The one call of a stage, which says nothing of what was asked."""
    (call,) = spans.of(stage)
    assert "secret" not in attribute_text(spans)
    return call


def expect_call(
    spans: Spans,
    server: ModelApi,
    name: str,
    provider: str,
    *,
    reason: str,
    cached: bool = True,
    model: str | None = "tiny-1",
) -> RecordedSpan:
    """The one call of a model, with all that is noted of one; its HTTP call lies within."""
    call = the_call(spans)
    noted = dict(call.attributes)
    for key in (semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, semconv.TOKEN_TIMES):
        noted.pop(key, None)
    assert call.name == name
    assert noted == {
        semconv.STAGE: Stage.REMOTE_MODEL,
        semconv.GEN_AI_OPERATION_NAME: name.partition(" ")[0],
        semconv.GEN_AI_PROVIDER_NAME: provider,
        semconv.GEN_AI_REQUEST_MODEL: name.partition(" ")[2],
        semconv.GEN_AI_RESPONSE_FINISH_REASONS: (reason,),
        **dict(TOKENS if cached else TOKENS[:2]),
        **({} if model is None else {semconv.GEN_AI_RESPONSE_MODEL: model}),
        semconv.SERVER_ADDRESS: "127.0.0.1",
        semconv.SERVER_PORT: server.server_port,
    }
    for http in spans.of(Stage.NETWORK):
        assert http.parent_id == call.span_id
    return call


def expect_stream(call: RecordedSpan) -> None:
    """The call of a stream that was read to its end, with its first token and the gaps."""
    waited_s = call.attributes[semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK]
    assert isinstance(waited_s, float)
    assert 0 < waited_s < (call.ended_ns - call.started_ns) / 1e9
    assert semconv.TOKEN_TIMES in call.attributes
    assert semconv.CANCELLED not in call.attributes
