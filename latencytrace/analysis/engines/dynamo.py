"""NVIDIA Dynamo: its frontend, its router, and the worker around an engine.

Their scope is the service's name, `dynamo` unless `OTEL_SERVICE_NAME` says another. Below a
worker come the spans of its engine, vLLM or SGLang, which tell more. `engine.generate` tells
the time to its first token as a text; what came before it, its queue too, is not split.
"""

from collections.abc import Sequence

from latencytrace.analysis.dialects.engine import (
    NOTHING_TOLD,
    Asked,
    Engine,
    Generation,
    Times,
    count_of,
    text_of,
)
from latencytrace.analysis.dialects.engine_times import NS_PER_MS
from latencytrace.model import Interval, Span, Stage, semconv

_REQUEST = "http-request"
_WORKER = "handle_payload"
_ENGINE = "engine.generate"
_ROUTER = "kv_router."
_MOST_DIGITS = 18


def _knows(span: Span) -> bool:
    return bool(span.scope) or span.name.startswith(_ROUTER)


def _prefills(span: Span) -> bool:
    return span.name == _ENGINE and span.attributes.get(semconv.DYNAMO_ROLE) == "prefill"


def _times(span: Span, _: Sequence[Span]) -> Times:
    """Decoding, from the first token on; of a worker that only prefills, that."""
    if span.name != _ENGINE:
        return NOTHING_TOLD
    first_ns = 0 if _prefills(span) else _first_token_ns(span)
    if first_ns is None or first_ns >= span.end_ns - span.start_ns:
        return NOTHING_TOLD
    stage = Stage.PREFILL if _prefills(span) else Stage.DECODE
    return Times(
        intervals=(Interval(stage=stage, start_ns=span.start_ns + first_ns, end_ns=span.end_ns),)
    )


def _first_token_ns(span: Span) -> int | None:
    text = span.attributes.get(semconv.DYNAMO_FIRST_TOKEN_MS)
    if not isinstance(text, str) or len(text) > _MOST_DIGITS:
        return None
    whole, _, rest = text.partition(".")
    is_number = text.isascii() and whole.isdigit() and (not rest or rest.isdigit())
    return round(float(text) * NS_PER_MS) if is_number else None


def _generation(span: Span) -> Generation:
    said = span.attributes
    reason = text_of(said, semconv.DYNAMO_FINISH_REASON)
    return Generation(
        first_token_ns=_first_token_ns(span),
        model=text_of(said, semconv.DYNAMO_MODEL),
        input_tokens=count_of(said, semconv.DYNAMO_INPUT_TOKENS),
        output_tokens=count_of(said, semconv.DYNAMO_OUTPUT_TOKENS),
        finish_reason=None if reason is None else reason.lower(),
    )


ENGINE = Engine(
    name="Dynamo",
    scopes=("dynamo",),
    knows=_knows,
    stages={
        _REQUEST: Stage.UNATTRIBUTED,
        _WORKER: Stage.UNATTRIBUTED,
        _ENGINE: Stage.UNATTRIBUTED,
        "client_request": Stage.NETWORK,
        "kv_router.compute_block_hashes": Stage.CACHE,
        "kv_router.compute_seq_hashes": Stage.CACHE,
        "kv_router.find_matches": Stage.CACHE,
        "kv_router.route_request": Stage.NETWORK,  # to the worker and back
        "kv_router.schedule": Stage.QUEUE,  # until a worker has room
        "kv_router.select_worker": Stage.PREPROCESS,
        "router.route_request": Stage.NETWORK,
    },
    asks=Asked(starts=(_ROUTER,)),
    times=_times,
    generation=_generation,
    entry=lambda span: span.name in {_REQUEST, _WORKER},
    only_prefills=_prefills,
)
