"""The engines with spans that we can read: a new one is a file and a line here."""

from collections.abc import Iterable
from functools import lru_cache

from latencytrace.analysis.dialects.engine import (
    NOTHING_GENERATED,
    Engine,
    Generation,
    by_scope,
)
from latencytrace.analysis.engines import (
    ai_sdk,
    autogen,
    crewai,
    dynamo,
    google_adk,
    langfuse,
    litellm,
    llama_index,
    llm_d,
    logfire,
    mastra,
    max_serve,
    mlflow,
    openinference_langchain,
    ray_serve,
    sglang,
    strands,
    tei,
    tensorrt_llm,
    tgi,
    triton,
    vllm,
)
from latencytrace.model import Span

ENGINES: tuple[Engine, ...] = tuple(
    known.ENGINE
    for known in (
        vllm, sglang, tgi, tei, triton, tensorrt_llm, ray_serve, litellm, llm_d, dynamo, max_serve,
        langfuse, logfire, openinference_langchain, ai_sdk, strands, google_adk, autogen, crewai,
        llama_index, mastra, mlflow,
    )
)  # fmt: skip


def engine_of(span: Span) -> Engine | None:
    """The engine that made a span, by its scope; where it came without one, by its marks."""
    for engine in _candidates(span.scope):
        if engine.knows(span):
            return engine
    return None


@lru_cache(maxsize=1024)
def _candidates(scope: str) -> tuple[Engine, ...]:
    if not scope:
        return tuple(engine for engine in ENGINES if engine.knows is not by_scope)
    return tuple(engine for engine in ENGINES if scope.startswith(engine.scopes))


def may_be_of_engine(span: Span) -> bool:
    """Return whether an engine may have made a span, by its scope alone."""
    return bool(_candidates(span.scope))


def have_engines(spans: Iterable[Span]) -> bool:
    """Return whether an engine may have made one of these spans: most traces have none."""
    return any(map(_candidates, {span.scope for span in spans}))


def generation_of(span: Span) -> Generation:
    """Return what a span tells of the tokens made in words of its engine's own."""
    if not _candidates(span.scope):
        return NOTHING_GENERATED
    engine = engine_of(span)
    return NOTHING_GENERATED if engine is None else engine.generation(span)


def as_it_ran(span: Span) -> Span:
    """Return a span, over its true time where its sender gave it another."""
    engine = engine_of(span)
    return span if engine is None else engine.ran(span)


def title_of(span: Span) -> str:
    """A span's name without what differs from request to request."""
    engine = engine_of(span)
    return span.name if engine is None else engine.title(span)


def is_step(span: Span) -> bool:
    """Return whether a span is but a part of the span above it."""
    engine = engine_of(span)
    return engine is not None and span.name in engine.steps
