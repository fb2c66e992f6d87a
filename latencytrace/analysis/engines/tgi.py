"""Text Generation Inference, with `--otlp-endpoint`: spans of Rust functions.

The handler's span tells three lengths that follow each other from its start: validation
(which holds the tokenizing), queue and inference. Inference is not divided into prefill
and decode: those are in the trace of the batch.
"""

from collections.abc import Sequence

from latencytrace.analysis.engine import Engine, Times
from latencytrace.analysis.engine_times import Reading, laid_out
from latencytrace.model import Span, Stage, semconv


def _knows(span: Span) -> bool:
    module = span.attributes.get(semconv.RUST_NAMESPACE) or span.attributes.get(
        semconv.RUST_MODULE
    )
    return isinstance(module, str) and module.startswith("text_generation")


def _unknown(_: Span) -> Stage:
    return Stage.UNATTRIBUTED  # the functions around


def _times(span: Span, _: Sequence[Span]) -> Times:
    reading = Reading(span)
    parts = (
        (Stage.PREPROCESS, reading.rust_duration(semconv.RUST_VALIDATION_TIME)),
        (Stage.QUEUE, reading.rust_duration(semconv.RUST_QUEUE_TIME)),
        (Stage.FORWARD, reading.rust_duration(semconv.RUST_INFERENCE_TIME)),
    )
    return laid_out(span, parts, start_ns=span.start_ns, faults=reading.faults)


ENGINE = Engine(
    name="TGI",
    scopes=("opentelemetry-otlp", "text_generation"),
    knows=_knows,
    stages={
        "validate": Stage.PREPROCESS,
        "tokenize": Stage.TOKENIZE,
        "queued": Stage.QUEUE,
        "infer": Stage.FORWARD,  # of one request, from the queue's end on
        "prefill": Stage.PREFILL,  # these three of a batch
        "decode": Stage.DECODE,
        "filter_batch": Stage.DECODE,
    },
    stage=_unknown,
    times=_times,
)
