"""Text Generation Inference, with `--otlp-endpoint`: spans of Rust functions.

The handler's span tells three lengths that follow each other from its start: validation
(which holds the tokenizing), queue and inference. Where the spans below arrive, inference
is split: of a request's spans `infer` the first is its prefill and each further one a
step of its decoding; in `waiting` it waits for the prefill of others. The spans `prefill`
and `decode` are in the traces of the batches, one a step.
"""

from collections.abc import Sequence

from latencytrace.analysis.dialects.engine import (
    NOTHING_GENERATED,
    Asked,
    Engine,
    Generation,
    Times,
)
from latencytrace.analysis.dialects.engine_times import Reading, laid_out
from latencytrace.model import Interval, Span, Stage, semconv

_INFER = "infer"
_STEPS = frozenset({_INFER, "waiting"})


def _knows(span: Span) -> bool:
    module = span.attributes.get(semconv.RUST_NAMESPACE) or span.attributes.get(
        semconv.RUST_MODULE
    )
    return isinstance(module, str) and module.startswith("text_generation")


def _unknown(_: Span) -> Stage:
    return Stage.UNATTRIBUTED  # the functions around


def _times(span: Span, children: Sequence[Span]) -> Times:
    reading = Reading(span)
    parts = (
        (Stage.PREPROCESS, reading.rust_duration(semconv.RUST_VALIDATION_TIME)),
        (Stage.QUEUE, reading.rust_duration(semconv.RUST_QUEUE_TIME)),
        (Stage.FORWARD, reading.rust_duration(semconv.RUST_INFERENCE_TIME)),
    )
    times = laid_out(span, parts, start_ns=span.start_ns, faults=reading.faults)
    return times if times.intervals else Times(intervals=_steps(children), faults=times.faults)


def _steps(children: Sequence[Span]) -> tuple[Interval, ...]:
    """Prefill and decoding of a request, of which each step is a span."""
    steps = [(span.start_ns, span.end_ns, span.name) for span in children if span.name in _STEPS]
    if not any(name == _INFER for _, _, name in steps):
        return ()
    start_ns, first_ns, _ = min(step for step in steps if step[2] == _INFER)
    parts = (
        (Stage.PREFILL, start_ns, first_ns),
        (Stage.DECODE, first_ns, max(end_ns for _, end_ns, _ in steps)),
    )
    return tuple(
        Interval(stage=stage, start_ns=start_ns, end_ns=end_ns)
        for stage, start_ns, end_ns in parts
        if start_ns < end_ns
    )


def _generation(span: Span) -> Generation:
    """The tokens made: its time per token is that of the whole inference over their number."""
    reading = Reading(span)
    inference_ns = reading.rust_duration(semconv.RUST_INFERENCE_TIME)
    per_token_ns = reading.rust_duration(semconv.RUST_PACE)
    if not inference_ns or not per_token_ns:
        return NOTHING_GENERATED
    return Generation(output_tokens=round(inference_ns / per_token_ns))


ENGINE = Engine(
    name="TGI",
    scopes=("opentelemetry-otlp", "text_generation"),
    knows=_knows,
    stages={
        "validate": Stage.PREPROCESS,
        "tokenize": Stage.TOKENIZE,
        "queued": Stage.QUEUE,
        "prefill": Stage.PREFILL,  # these three of a batch
        "decode": Stage.DECODE,
        "filter_batch": Stage.DECODE,
    },
    stage=_unknown,
    times=_times,
    generation=_generation,
    asks=Asked(words=_STEPS, starts=("text_generation",)),
)
