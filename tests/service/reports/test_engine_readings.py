"""Every engine's own metrics by one set of names."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.errors import ScrapeError
from latencytrace.service.reports.engine_readings import Reading, engine_readings

TEXTS = Path(__file__).parents[1] / "engine_texts"


def told(name: str) -> dict[tuple[str, str], dict[str, float]]:
    """The readings in the text of an engine."""
    readings = engine_readings((TEXTS / f"{name}.txt").read_text("utf-8"))
    return {
        of: {str(reading): value for reading, value in all_.items()}
        for of, all_ in readings.items()
    }


def test_vllm() -> None:
    assert told("vllm") == {
        ("vllm", "smollm2"): {
            "waiting_requests": 3,
            "running_requests": 2,
            "batch_size": 2,
            "kv_cache_use_ratio": pytest.approx(0.01377, rel=1e-3),
            "prefix_cache_queries": 725,
            "prefix_cache_hits": 256,
            "preemptions": 0,
            "input_tokens": 725,
            "output_tokens": 86,
        }
    }


def test_sglang() -> None:
    assert told("sglang") == {
        ("sglang", "qwen2.5"): {
            "waiting_requests": 4,
            "running_requests": 7,
            "batch_size": 7,
            "kv_cache_use_ratio": 0.62,
            "prefix_cache_queries": 4000,
            "prefix_cache_hits": 1600,
            "preemptions": 2,
            "input_tokens": 4000,
            "output_tokens": 1000,
        }
    }


def test_tgi() -> None:
    assert told("tgi") == {
        ("tgi", ""): {
            "waiting_requests": 2,
            "running_requests": 3,
            "batch_size": 3,
            "input_tokens": 9216,
            "output_tokens": 2304,
        }
    }


def test_tei() -> None:
    assert told("tei") == {
        ("tei", ""): {"waiting_requests": 5, "inferences": 90, "executions": 20}
    }


def test_triton() -> None:
    assert told("triton") == {
        ("triton", "reranker"): {"waiting_requests": 6, "inferences": 900, "executions": 300},
        ("triton", "embedder"): {"waiting_requests": 0, "inferences": 40, "executions": 40},
    }


def test_triton_with_its_tensorrt_llm_backend() -> None:
    assert told("triton_trt_llm") == {
        ("triton", "tensorrt_llm"): {
            "waiting_requests": 4,
            "running_requests": 8,
            "kv_cache_use_ratio": 0.25,
        },
        ("triton", "preprocessing"): {"waiting_requests": 1},
    }


def reading(text: str, of: Reading) -> float:
    """The one value of a text."""
    [values] = engine_readings(text).values()
    return values[of]


def test_engines_that_share_a_model_are_added_up_and_the_fullest_cache_counts() -> None:
    text = """
vllm:num_requests_waiting{model_name="m",engine="0"} 1.0
vllm:num_requests_waiting{model_name="m",engine="1"} 2.0
vllm:kv_cache_usage_perc{model_name="m",engine="0"} 0.5
vllm:kv_cache_usage_perc{model_name="m",engine="1"} 0.75
"""

    assert reading(text, Reading.WAITING) == 3
    assert reading(text, Reading.KV_CACHE_USE) == 0.75


def test_accepted_drafts_are_counted_or_told_as_a_ratio() -> None:
    vllm = """
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 100.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 300.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 150.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 80.0
"""
    sglang = """
sglang:spec_accept_rate{model_name="m",tp_rank="0",dp_rank="0"} 0.5
sglang:spec_accept_rate{model_name="m",tp_rank="1",dp_rank="0"} 0.5
sglang:spec_accept_rate{model_name="m",tp_rank="0",dp_rank="1"} 0.75
"""

    assert (reading(vllm, Reading.DRAFTED), reading(vllm, Reading.ACCEPTED)) == (300, 150)
    assert reading(sglang, Reading.ACCEPTANCE) == 0.625


def test_an_engine_that_drafts_nothing_tells_no_acceptance() -> None:
    text = """
sglang:num_queue_reqs{model_name="m"} 0.0
sglang:spec_accept_rate{model_name="m"} 0.0
"""

    [told_of_it] = engine_readings(text).values()

    assert Reading.ACCEPTANCE not in told_of_it


def test_ranks_of_one_engine_that_tell_the_same_are_counted_once() -> None:
    text = """
sglang:num_queue_reqs{model_name="m",tp_rank="0",dp_rank="0"} 4.0
sglang:num_queue_reqs{model_name="m",tp_rank="1",dp_rank="0"} 4.0
sglang:num_queue_reqs{model_name="m",tp_rank="2",dp_rank="1"} 3.0
"""

    assert reading(text, Reading.WAITING) == 7


def test_priorities_that_the_whole_holds_are_not_added_to_it() -> None:
    text = """
sglang:num_queue_reqs{model_name="m",priority=""} 5.0
sglang:num_queue_reqs{model_name="m",priority="1"} 2.0
sglang:num_queue_reqs{model_name="m",priority="2"} 3.0
"""

    assert reading(text, Reading.WAITING) == 5


@pytest.mark.parametrize(
    "name", ["ray_vllm_num_requests_waiting", "vllm_num_requests_waiting"], ids=str
)
def test_names_that_ray_and_opentelemetry_made_of_it_are_known(name: str) -> None:
    assert reading(f'{name}{{model_name="m"}} 3\n', Reading.WAITING) == 3


def test_an_older_name_counts_where_the_newer_one_is_missing() -> None:
    old = 'vllm:gpu_cache_usage_perc{model_name="m"} 0.25\n'
    new = 'vllm:kv_cache_usage_perc{model_name="m"} 0.5\n'

    assert reading(old, Reading.KV_CACHE_USE) == 0.25
    assert reading(f"{old}{new}", Reading.KV_CACHE_USE) == 0.5


def test_what_is_no_number_is_not_told() -> None:
    text = """
vllm:num_requests_waiting{model_name="m"} 3
vllm:num_requests_running{model_name="m"} NaN
vllm:kv_cache_usage_perc{model_name="m"} -1
"""

    assert reading(text, Reading.WAITING) == 3
    assert set(engine_readings(text)["vllm", "m"]) == {Reading.WAITING}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "none of vllm"),
        ("<html>hello</html>", "none of vllm"),
        ("process_cpu_seconds_total 3\n", "none of vllm"),
        ('vllm:num_requests_waiting{model_name="m} 3\n', "no metrics of Prometheus"),
        ("vllm:num_requests_waiting many\n", "no metrics of Prometheus"),
    ],
    ids=["empty", "a page", "another program", "a broken label", "no number"],
)
def test_what_is_no_engine_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ScrapeError, match=why):
        engine_readings(text)


@given(st.text(alphabet='vllm:num_requests_waiting{}="\\, 0123e+-#\n', max_size=80))
def test_whatever_is_answered_is_read_or_refused(tail: str) -> None:
    with suppress(ScrapeError):
        engine_readings(f"vllm:num_requests_waiting{tail}")
