"""Vercel's AI SDK (`ai` 4 and 5), with `experimental_telemetry`.

A span for what the program called (`ai.streamText`), and in it one for each call of the model
(`.doStream`, `.doGenerate`, `.doEmbed`) and of a tool. The outer one adds the tokens up.
"""

from latencytrace.analysis.dialects.engine import Asked, Engine, Generation, count_of, text_of
from latencytrace.analysis.dialects.engine_times import Reading
from latencytrace.model import Span, Stage, semconv

_SCOPE = "ai"
_CALLED = ("generateText", "streamText", "generateObject", "streamObject", "embed", "embedMany")
_CALLS = {
    "doGenerate": Stage.REMOTE_MODEL,
    "doStream": Stage.REMOTE_MODEL,
    "doEmbed": Stage.EMBED,
}
_INPUT = (semconv.AI_SDK_INPUT_TOKENS, semconv.AI_SDK_PROMPT_TOKENS, semconv.AI_SDK_TOKENS)
_OUTPUT = (semconv.AI_SDK_OUTPUT_TOKENS, semconv.AI_SDK_COMPLETION_TOKENS)


def _knows(span: Span) -> bool:
    return span.scope == _SCOPE or (not span.scope and semconv.AI_SDK_OPERATION in span.attributes)


def _stage(span: Span) -> Stage | None:
    _, _, part = span.name.rpartition(".")
    return _CALLS.get(part)


def _generation(span: Span) -> Generation:
    said = span.attributes
    return Generation(
        first_token_ns=Reading(span).milliseconds(semconv.AI_SDK_FIRST_CHUNK_MS),
        model=text_of(said, semconv.AI_SDK_MODEL),
        input_tokens=count_of(said, *_INPUT),
        cached_input_tokens=count_of(said, semconv.AI_SDK_CACHED_TOKENS),
        output_tokens=count_of(said, *_OUTPUT),
        finish_reason=text_of(said, semconv.AI_SDK_FINISH_REASON),
    )


ENGINE = Engine(
    name="AI SDK",
    scopes=(_SCOPE,),
    knows=_knows,
    stages={
        **dict.fromkeys((f"ai.{name}" for name in _CALLED), Stage.UNATTRIBUTED),
        "ai.toolCall": Stage.TOOL,
    },
    stage=_stage,
    generation=_generation,
    reported_in=frozenset(
        {
            *_INPUT,
            *_OUTPUT,
            semconv.AI_SDK_CACHED_TOKENS,
            semconv.AI_SDK_FINISH_REASON,
            semconv.AI_SDK_FIRST_CHUNK_MS,
            semconv.AI_SDK_MODEL,
        }
    ),
    asks=Asked(words=frozenset({_SCOPE, *_CALLS}), ends=tuple(f".{call}" for call in _CALLS)),
)
