"""Text Embeddings Inference, with `--otlp-endpoint`: spans of Rust functions.

The handler's span tells three lengths that follow each other from its start: tokenization,
queue and inference; of a request with several inputs, their means. What the inference is
for follows from the route: embedding, reranking, classifying.
"""

from collections.abc import Sequence

from latencytrace.analysis.dialects.engine import Asked, Engine, Times
from latencytrace.analysis.dialects.engine_times import Reading, laid_out
from latencytrace.model import Span, Stage, semconv

_INFERENCE = {"rerank": Stage.RERANK, "predict": Stage.FORWARD}  # others embed


def _module(span: Span) -> str:
    module = span.attributes.get(semconv.RUST_NAMESPACE) or span.attributes.get(
        semconv.RUST_MODULE
    )
    return module if isinstance(module, str) else ""


def _knows(span: Span) -> bool:
    return _module(span).startswith("text_embeddings")


def _stage(span: Span) -> Stage:
    """The functions of the back end are the model; the others only lead there."""
    if not _module(span).startswith("text_embeddings_backend"):
        return Stage.UNATTRIBUTED
    return _INFERENCE.get(span.name, Stage.EMBED)


def _times(span: Span, _: Sequence[Span]) -> Times:
    reading = Reading(span)
    parts = (
        (Stage.TOKENIZE, reading.rust_duration(semconv.RUST_TOKENIZATION_TIME)),
        (Stage.QUEUE, reading.rust_duration(semconv.RUST_QUEUE_TIME)),
        (
            _INFERENCE.get(span.name, Stage.EMBED),
            reading.rust_duration(semconv.RUST_INFERENCE_TIME),
        ),
    )
    return laid_out(span, parts, start_ns=span.start_ns, faults=reading.faults)


ENGINE = Engine(
    name="TEI",
    scopes=("opentelemetry-otlp", "text_embeddings"),
    knows=_knows,
    stages={
        "tokenize": Stage.TOKENIZE,
        "encode": Stage.TOKENIZE,
        "append": Stage.QUEUE,
        "next_batch": Stage.QUEUE,
    },
    stage=_stage,
    times=_times,
    asks=Asked(words=frozenset(_INFERENCE), starts=("text_embeddings", "text_embeddings_backend")),
)
