"""llm-d: the router's choice of a model server, and the proxy beside a disaggregated one.

The proxy's `true_ttft` ends where decoding starts, so it is no time to first token. Its
`decode` is started from the span `prefill`, which has ended by then.
"""

from collections.abc import Sequence

from latencytrace.analysis.dialects.engine import Asked, Engine, Times
from latencytrace.analysis.dialects.engine_times import Reading, laid_out
from latencytrace.model import Span, Stage, semconv

_PREFILL = ("llm_d.pd_proxy.prefill", "prefill")
_DECODE = ("llm_d.pd_proxy.decode", "decode")
_SCORER = "llm_d.epp."  # scorers have a span each
_KV_CACHE = "llm_d.kv_cache"


def _knows(span: Span) -> bool:
    return bool(span.scope) or span.name.startswith("llm_d.")


def _stage(span: Span) -> Stage:
    if span.name.startswith(_KV_CACHE):
        return Stage.CACHE
    return Stage.PREPROCESS if span.name.startswith(_SCORER) else Stage.UNATTRIBUTED


def _times(span: Span, _: Sequence[Span]) -> Times:
    reading = Reading(span)
    before_decode_ns = reading.milliseconds(semconv.LLM_D_TIME_TO_DECODE_MS)
    if before_decode_ns is None:
        return Times(faults=tuple(reading.faults))
    handover_ns = reading.milliseconds(semconv.LLM_D_HANDOVER_MS)
    if handover_ns is None:
        handover_ns = reading.milliseconds(semconv.LLM_D_HANDOVER_MS_OLD)
    prefill_ns = reading.milliseconds(semconv.LLM_D_PREFILL_MS)
    parts = (
        (Stage.PREFILL, prefill_ns),
        (Stage.TRANSFER, handover_ns),
        (Stage.DECODE, reading.milliseconds(semconv.LLM_D_DECODE_MS)),
    )
    start_ns = span.start_ns + before_decode_ns - (handover_ns or 0) - (prefill_ns or 0)
    return laid_out(span, parts, start_ns=start_ns, faults=reading.faults)


ENGINE = Engine(
    name="llm-d",
    scopes=("llm-d", "gateway-api-inference-extension"),
    knows=_knows,
    stages={
        **dict.fromkeys(_PREFILL, Stage.PREFILL),
        **dict.fromkeys(_DECODE, Stage.DECODE),
        **dict.fromkeys(
            (
                "filter_endpoints", "gateway.director.handle_request",
                "gateway.scheduler.schedule", "pick_disagg_profile", "pick_endpoints",
                "prepare_disaggregation", "run_scheduler_profile",
            ),
            Stage.PREPROCESS,
        ),
        **dict.fromkeys(
            ("index_add", "index_lookup", "produce_precise_prefix_cache"), Stage.CACHE
        ),
        "tokenize_render": Stage.TOKENIZE,
    },
    stage=_stage,
    times=_times,
    only_prefills=lambda span: span.name in _PREFILL,
    hands_over=_PREFILL,
    asks=Asked(starts=("llm_d.", _SCORER, _KV_CACHE)),
)  # fmt: skip
