"""Reads an engine's `/metrics`: which engine it is, and its readings of each model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from statistics import fmean
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from latencytrace.errors import ScrapeError

# Names that inference engines have in their own metrics, and ours for the same. Sources: vLLM 0.32
# `v1/metrics/loggers.py`, SGLang 0.5.23 `srt/observability/metrics_collector.py`,
# TGI 3.3 `docs/source/reference/metrics.md` and `router/src/infer`, TEI 1.9 `core/src/queue.rs`,
# Triton `docs/user_guide/metrics.md` and the TensorRT-LLM backend's README.


class Reading(StrEnum):
    """A reading that engines report, as it is called behind `latencytrace_engine_`."""

    WAITING = "waiting_requests"
    RUNNING = "running_requests"
    BATCH_SIZE = "batch_size"
    KV_CACHE_USE = "kv_cache_use_ratio"
    PREFIX_CACHE_QUERIES = "prefix_cache_queries"
    PREFIX_CACHE_HITS = "prefix_cache_hits"
    PREEMPTIONS = "preemptions"
    INPUT_TOKENS = "input_tokens"
    OUTPUT_TOKENS = "output_tokens"
    DRAFTED = "speculative_drafted_tokens"
    ACCEPTED = "speculative_accepted_tokens"
    ACCEPTANCE = "speculative_acceptance_ratio"
    PREFIX_CACHE_HIT = "prefix_cache_hit_ratio"  # since the reading before
    PREEMPTED = "preempted"  # times since the reading before
    INFERENCES = "inferences"  # with the next one the batch size where no gauge has it
    EXECUTIONS = "executions"


@dataclass(frozen=True, slots=True)
class Form:
    """The form in which a reading is shown."""

    text: str
    is_counter: bool = False
    is_share: bool = False  # of several parts of an engine the largest counts, not their sum
    is_mean: bool = False  # their mean counts; 0 is what an engine shows that has none of it


@dataclass(frozen=True, slots=True)
class Source:
    """A metric of an engine, `:` written as `_`; only series with these labels (or without)."""

    name: str
    where: tuple[tuple[str, str], ...] = ()


FORMS: Final[Mapping[Reading, Form]] = {
    Reading.WAITING: Form("Requests that wait for the engine."),
    Reading.RUNNING: Form("Requests that the engine works on."),
    Reading.BATCH_SIZE: Form("Requests served together in a step; the mean where it is counted."),
    Reading.KV_CACHE_USE: Form("Share of the KV cache in use.", is_share=True),
    Reading.PREFIX_CACHE_QUERIES: Form(
        "Input tokens looked for in the prefix cache.", is_counter=True
    ),
    Reading.PREFIX_CACHE_HITS: Form("Those of them that were found there.", is_counter=True),
    Reading.PREEMPTIONS: Form(
        "Times that a running request was put back to wait.", is_counter=True
    ),
    Reading.INPUT_TOKENS: Form("Input tokens read.", is_counter=True),
    Reading.OUTPUT_TOKENS: Form("Output tokens generated.", is_counter=True),
    Reading.DRAFTED: Form("Tokens that were drafted by speculative decoding.", is_counter=True),
    Reading.ACCEPTED: Form("Those of them that the model accepted.", is_counter=True),
    Reading.ACCEPTANCE: Form(
        "Share of the drafted tokens that the model accepted; the mean where it is counted.",
        is_mean=True,
    ),
}
# Ratios of what two counters grew by since the reading before, where no gauge has them.
GROWN: Final[Mapping[Reading, tuple[Reading, Reading]]] = {
    Reading.BATCH_SIZE: (Reading.INFERENCES, Reading.EXECUTIONS),
    Reading.ACCEPTANCE: (Reading.ACCEPTED, Reading.DRAFTED),
    Reading.PREFIX_CACHE_HIT: (Reading.PREFIX_CACHE_HITS, Reading.PREFIX_CACHE_QUERIES),
}
# Series that differ in these only say the same again: one request runs on all of those ranks.
SAME_ON: Final = frozenset({"tp_rank", "pp_rank", "moe_ep_rank"})
MODEL_LABELS: Final = ("model_name", "model")

_EVERY_PRIORITY = (("priority", ""),)  # SGLang shows the whole, and each priority besides


def _sglang(name: str) -> Source:
    return Source(f"sglang_{name}", _EVERY_PRIORITY)


def _trt_llm(kind: str, value: str) -> Source:
    label = {"request": "request_type", "kv_cache_block": "kv_cache_block_type"}[kind]
    return Source(f"nv_trt_llm_{kind}_metrics", ((label, value),))


# Of several sources the first that knows a model counts; later ones are older names of the same.
ENGINES: Final[Mapping[str, Mapping[Reading, Sequence[Source]]]] = {
    "vllm": {
        Reading.WAITING: [Source("vllm_num_requests_waiting")],
        Reading.RUNNING: [Source("vllm_num_requests_running")],
        Reading.BATCH_SIZE: [Source("vllm_num_requests_running")],  # all of them in each step
        Reading.KV_CACHE_USE: [
            Source("vllm_kv_cache_usage_perc"),  # 1 is all of it, whatever its name says
            Source("vllm_gpu_cache_usage_perc"),
        ],
        Reading.PREFIX_CACHE_QUERIES: [
            Source("vllm_prefix_cache_queries_total"),
            Source("vllm_gpu_prefix_cache_queries_total"),
        ],
        Reading.PREFIX_CACHE_HITS: [
            Source("vllm_prefix_cache_hits_total"),
            Source("vllm_gpu_prefix_cache_hits_total"),
        ],
        Reading.PREEMPTIONS: [Source("vllm_num_preemptions_total")],
        Reading.INPUT_TOKENS: [Source("vllm_prompt_tokens_total")],
        Reading.OUTPUT_TOKENS: [Source("vllm_generation_tokens_total")],
        Reading.DRAFTED: [Source("vllm_spec_decode_num_draft_tokens_total")],
        Reading.ACCEPTED: [Source("vllm_spec_decode_num_accepted_tokens_total")],
    },
    "sglang": {
        Reading.WAITING: [_sglang("num_queue_reqs")],
        Reading.RUNNING: [_sglang("num_running_reqs")],
        Reading.BATCH_SIZE: [_sglang("num_running_reqs")],
        Reading.KV_CACHE_USE: [_sglang("token_usage")],
        Reading.PREFIX_CACHE_QUERIES: [Source("sglang_prompt_tokens_total")],
        Reading.PREFIX_CACHE_HITS: [Source("sglang_cached_tokens_total")],
        Reading.PREEMPTIONS: [Source("sglang_num_retracted_requests_total")],
        Reading.INPUT_TOKENS: [Source("sglang_prompt_tokens_total")],
        Reading.OUTPUT_TOKENS: [Source("sglang_generation_tokens_total")],
        Reading.ACCEPTANCE: [Source("sglang_spec_accept_rate")],
    },
    "tgi": {
        Reading.WAITING: [Source("tgi_queue_size")],
        Reading.RUNNING: [Source("tgi_batch_current_size")],
        Reading.BATCH_SIZE: [Source("tgi_batch_current_size")],
        Reading.INPUT_TOKENS: [Source("tgi_request_input_length_sum")],
        Reading.OUTPUT_TOKENS: [Source("tgi_request_generated_tokens_sum")],
    },
    "tei": {
        Reading.WAITING: [Source("te_queue_size")],
        Reading.INFERENCES: [Source("te_batch_next_size_sum")],
        Reading.EXECUTIONS: [Source("te_batch_next_size_count")],
    },
    "triton": {
        Reading.WAITING: [
            _trt_llm("request", "waiting"),
            Source("nv_inference_pending_request_count"),
        ],
        Reading.RUNNING: [_trt_llm("request", "scheduled")],
        Reading.KV_CACHE_USE: [_trt_llm("kv_cache_block", "fraction")],
        Reading.INFERENCES: [Source("nv_inference_count")],
        Reading.EXECUTIONS: [Source("nv_inference_exec_count")],
    },
}


EngineModel = tuple[str, str]  # an engine and a model, which is empty where it names none
Readings = Mapping[EngineModel, Mapping[Reading, float]]

_RAY: Final = "ray_"  # what Ray Serve puts before the metrics of the engine in it
_NAMES: Final = frozenset(
    source.name
    for readings in ENGINES.values()
    for sources in readings.values()
    for source in sources
)


def engine_readings(text: str) -> Readings:
    """Return the readings in the text of a `/metrics`, by engine and model.

    Raises:
        ScrapeError: It is no such text, or of no engine that is known.
    """
    by_name: dict[str, list[Sample]] = {}
    for sample in _samples(text):
        by_name.setdefault(_plain(sample.name), []).append(sample)
    found: dict[EngineModel, dict[Reading, float]] = {}
    for engine, readings in ENGINES.items():
        for reading, sources in readings.items():
            for model, value in _values(reading, sources, by_name).items():
                found.setdefault((engine, model), {})[reading] = value
    if not found:
        raise ScrapeError(f"it has metrics of none of {', '.join(ENGINES)}")
    return found


def _values(
    reading: Reading, sources: Sequence[Source], by_name: Mapping[str, Sequence[Sample]]
) -> dict[str, float]:
    """A reading by model: of the first source that knows it."""
    values: dict[str, float] = {}
    form = FORMS.get(reading)
    for source in sources:
        parts: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
        for sample in by_name.get(source.name, ()):
            labels = sample.labels
            if any(labels.get(name, "") != wanted for name, wanted in source.where):
                continue
            model = next((labels[name] for name in MODEL_LABELS if name in labels), "")
            part = tuple(sorted(pair for pair in labels.items() if pair[0] not in SAME_ON))
            of_model = parts.setdefault(model, {})
            of_model[part] = max(of_model.get(part, 0.0), sample.value)
        for model, of_model in parts.items():
            value = _whole(form, list(of_model.values()))
            if value is not None:
                values.setdefault(model, value)
    return values


def _whole(form: Form | None, parts: Sequence[float]) -> float | None:
    """One value of several parts of an engine; None: it is none."""
    if form is not None and form.is_mean:
        return fmean(parts) or None
    return max(parts) if form is not None and form.is_share else sum(parts)


def _samples(text: str) -> Iterator[Sample]:
    """Samples that a table names; what else stands there need not even be well formed."""
    wanted = "\n".join(_wanted(text.splitlines()))
    try:
        for family in text_string_to_metric_families(f"{wanted}\n"):
            yield from (sample for sample in family.samples if _is_known(sample.value))
    except (ValueError, IndexError, KeyError) as error:
        raise ScrapeError(f"it answers with no metrics of Prometheus: {error}") from None


def _wanted(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        name = line.partition("{")[0].partition(" ")[0]
        if _plain(name) in _NAMES:
            yield line


def _is_known(value: float) -> bool:
    return isfinite(value) and value >= 0


def _plain(name: str) -> str:
    return name.removeprefix(_RAY).replace(":", "_")
