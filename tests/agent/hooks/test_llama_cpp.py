"""The hook of llama-cpp-python, with a model of random weights made on the spot."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from latencytrace.model import Stage, semconv
from latencytrace.model.packed import unpack_token_times
from tests.support.agent.hooked import Spans, attribute_text, hooked, interval_stages

llama_cpp = pytest.importorskip("llama_cpp")
hooks = pytest.importorskip("latencytrace.agent.hooks.llama_cpp")

pytestmark = pytest.mark.llama_cpp
PROMPT = "where did the milliseconds go"
INPUT = semconv.GEN_AI_USAGE_INPUT_TOKENS
CACHED = semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS
OUTPUT = semconv.GEN_AI_USAGE_OUTPUT_TOKENS
REASON = semconv.GEN_AI_RESPONSE_FINISH_REASONS


@pytest.fixture(scope="module")
def loaded(gguf: Path) -> Any:
    return llama_cpp.Llama(str(gguf), n_ctx=256, n_threads=1, embeddings=False, verbose=False)


@pytest.fixture
def llama(loaded: Any) -> Any:
    """A model that remembers no prompt."""
    loaded.reset()
    return loaded


@pytest.fixture
def spans(llama: Any) -> Iterator[Spans]:
    assert llama.n_tokens == 0
    with hooked(hooks.LlamaCppHook) as spans:
        yield spans


def complete(llama: Any, tokens: int = 8, **options: object) -> Any:
    never = {2: -100.0}  # the token that ends an answer
    options = {"temperature": 0, "logit_bias": never, **options}
    return llama.create_completion(PROMPT, max_tokens=tokens, **options)


def test_a_completion_is_tokenized_prefilled_and_decoded(spans: Spans, llama: Any) -> None:
    complete(llama)

    assert spans.names == ["tokenize", "prefill", "decode", "completion"]
    assert spans.stages == [Stage.TOKENIZE, Stage.PREFILL, Stage.DECODE, Stage.PREPROCESS]
    tokenizing, prefill, decode, whole = spans.all
    assert [span.parent for span in (tokenizing, prefill, decode)] == [
        whole.get_span_context()
    ] * 3
    assert prefill.end_time == decode.start_time
    assert interval_stages(whole) == {Stage.DETOKENIZE}
    times = unpack_token_times(str(decode.attributes[semconv.TOKEN_TIMES]), decode.start_time or 0)
    assert len(times.lengths_ns) == 8 - 1


def test_a_completion_counts_its_tokens(spans: Spans, llama: Any) -> None:
    answer = complete(llama)

    attributes = spans.all[-1].attributes
    assert attributes[INPUT] == answer["usage"]["prompt_tokens"]
    assert attributes[OUTPUT] == 8
    assert attributes[CACHED] == 0
    assert attributes[REASON] == ("length",)
    assert attributes[semconv.GEN_AI_REQUEST_MODEL] == "tiny"
    assert semconv.CANCELLED not in attributes
    assert "milliseconds" not in attribute_text(spans)


def test_what_was_cached_of_the_prompt_is_counted(spans: Spans, llama: Any) -> None:
    complete(llama)
    complete(llama)

    first, second = (span.attributes for span in spans.all if span.name == "completion")
    assert first[CACHED] == 0
    assert second[INPUT] == llama.n_tokens - 8 + 1  # the last token made was not evaluated
    assert second[CACHED] == llama.n_tokens - 8  # one is evaluated again for its logits


def test_a_stream_lasts_until_its_last_chunk(spans: Spans, llama: Any) -> None:
    chunks = complete(llama, stream=True)
    before = list(spans.all)

    texts = [chunk["choices"][0]["text"] for chunk in chunks]

    assert before == []
    assert len(texts) >= 8
    assert spans.names == ["tokenize", "prefill", "decode", "completion"]
    assert spans.all[-1].attributes[REASON] == ("length",)
    assert semconv.CANCELLED not in spans.all[-1].attributes


def test_a_stream_that_is_dropped_ends_as_cancelled(spans: Spans, llama: Any) -> None:
    chunks = complete(llama, stream=True)
    next(chunks)

    del chunks
    gc.collect()

    assert spans.names == ["tokenize", "prefill", "decode", "completion"]
    assert spans.all[-1].attributes[semconv.CANCELLED] is True


def test_a_chat_is_a_completion_after_its_template(spans: Spans, llama: Any) -> None:
    llama.create_chat_completion([{"role": "user", "content": PROMPT}], max_tokens=4)

    assert spans.names == ["chat_template", "tokenize", "prefill", "decode", "completion"]


def test_tokens_generated_without_a_completion_are_prefilled_and_decoded(
    spans: Spans,
    llama: Any,
) -> None:
    tokens = llama.generate([1, 300, 301], temp=0)

    made = [next(tokens) for _ in range(3)]
    tokens.close()

    assert len(made) == 3
    assert spans.names == ["prefill", "decode"]
    assert spans.all[-1].attributes[OUTPUT] == 3


def test_what_a_completion_raises_passes_through(spans: Spans, llama: Any) -> None:
    with pytest.raises(ValueError, match="exceed context window"):
        llama.create_completion(PROMPT * 40, max_tokens=4)

    assert spans.all[-1].name == "completion"
    assert spans.all[-1].status.status_code is StatusCode.ERROR
    assert "milliseconds" not in attribute_text(spans)


def test_embedding_is_one_span_with_its_tokenizing(spans: Spans, gguf: Path) -> None:
    model = llama_cpp.Llama(
        str(gguf), n_ctx=256, n_threads=1, embedding=True, verbose=False, pooling_type=1
    )

    model.create_embedding([PROMPT, PROMPT])

    assert spans.names == ["embed"]
    assert spans.stages == [Stage.EMBED]
    assert spans.only.attributes[semconv.BATCH_SIZE] == 2


def test_a_load_that_a_request_waits_for_is_timed(spans: Spans, gguf: Path) -> None:
    with spans.recorder.tracer.start_as_current_span("request"):
        llama_cpp.Llama(str(gguf), n_ctx=64, n_threads=1, verbose=False)

    assert spans.of(Stage.LOAD)[0].name == "load"
