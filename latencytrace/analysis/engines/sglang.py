"""SGLang, with `--enable-trace`: a span a request, one below it a process, slices below those.

The slices tell queue, prefill and decode. The attributes of the request's span have
vLLM's keys and other meanings: `time_in_model_prefill` and `time_in_model_inference` begin
when the request was dispatched and hold its queue, so they are not read.
"""

from latencytrace.analysis.dialects.engine import NOTHING_GENERATED, Asked, Engine, Generation
from latencytrace.analysis.dialects.engine_times import Reading
from latencytrace.model import Span, Stage, semconv

_SCHEDULED = "schedule"  # an event: it joined a batch
_ID_LENGTH = 8


def _knows(span: Span) -> bool:
    if span.scope:
        return True
    module = span.attributes.get(semconv.SGLANG_MODULE)
    return semconv.SGLANG_THREAD in span.attributes or (
        isinstance(module, str) and module.startswith("sglang::")
    )


def _is_request(span: Span) -> bool:
    return semconv.SGLANG_MODULE in span.attributes


def _stage(span: Span) -> Stage | None:
    framework = _is_request(span) or semconv.SGLANG_THREAD in span.attributes
    return Stage.UNATTRIBUTED if framework else None


def _title(span: Span) -> str:
    """`Req`, `prefill Req` or `decode Req`: the name ends in an id, and may begin blank."""
    name, _, id_ = span.name.strip().rpartition(" ")
    return name.strip() if name and len(id_) <= _ID_LENGTH else span.name.strip()


def _generation(span: Span) -> Generation:
    if not span.events and not _is_request(span):
        return NOTHING_GENERATED
    sizes = [
        size
        for event in span.events
        if event.name == _SCHEDULED
        and isinstance(size := event.attributes.get(semconv.SGLANG_BATCH_SIZE), int)
    ]
    decode_ns = None
    if _is_request(span):
        decode_ns = Reading(span).seconds(semconv.LATENCY_IN_DECODE)
    return Generation(
        decode_ns=decode_ns,
        batch_size=sizes[-1] if sizes else None,
    )


ENGINE = Engine(
    name="SGLang",
    scopes=("sglang",),
    knows=_knows,
    stages={
        "tokenize": Stage.TOKENIZE,
        "mm_encode": Stage.FORWARD,
        "api_server_dispatch": Stage.PREPROCESS,
        "dpc_dispatch": Stage.PREPROCESS,
        "request_process": Stage.PREPROCESS,
        "prefill_prepare": Stage.PREPROCESS,
        "decode_prepare": Stage.PREPROCESS,
        "prefill_bootstrap": Stage.QUEUE,  # until the decoder has room for the KV cache
        "decode_bootstrap": Stage.QUEUE,
        "prefill_waiting": Stage.QUEUE,
        "decode_waiting": Stage.QUEUE,
        "prefill_forward": Stage.PREFILL,
        "chunked_prefill": Stage.PREFILL,
        "prefill_transfer_kv_cache": Stage.TRANSFER,
        "decode_transferred": Stage.TRANSFER,
        "decode_forward": Stage.DECODE,
        "decode_loop": Stage.DECODE,
        "fake_output": Stage.DECODE,  # takes over the first token that the prefiller made
        "quick_finish": Stage.DECODE,
        "spec_draft": Stage.DECODE,
        "spec_verify": Stage.DECODE,
    },
    stage=_stage,
    generation=_generation,
    reported_in=frozenset({semconv.SGLANG_MODULE, semconv.LATENCY_IN_DECODE}),
    title=_title,
    entry=_is_request,
    only_prefills=lambda span: _is_request(span) and span.name.startswith("prefill "),
    steps=frozenset(
        {"chunked_prefill", "decode_loop", "run_batch_cpu", "spec_draft", "spec_verify"}
    ),
    asks=Asked(starts=("sglang::", "prefill ")),
)
