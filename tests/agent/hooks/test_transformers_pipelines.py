"""The hook of transformers' pipelines, with models made on the spot."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.trace import StatusCode
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    Pipeline,
    pipeline,
)

from latencytrace.agent.hooks.transformers import TransformersHook
from latencytrace.agent.hooks.transformers_pipelines import TransformersPipelinesHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked, interval_stages, intervals_of
from tests.support.models.tiny_chat import TinyChat

TEXT = "where did the milliseconds go"
PARTS = {Stage.PREPROCESS, Stage.TOKENIZE, Stage.POSTPROCESS}


@pytest.fixture
def classify(tiny_chat: TinyChat) -> Pipeline:
    """Classifies texts; it is made before the hook is applied."""
    model = BertForSequenceClassification(config())
    return pipeline("text-classification", model=model, tokenizer=tiny_chat.tokenizer)


@pytest.fixture
def tag(tiny_chat: TinyChat) -> Pipeline:
    """Classifies tokens: a pipeline that cuts its inputs into chunks."""
    model = BertForTokenClassification(config())
    return pipeline("token-classification", model=model, tokenizer=tiny_chat.tokenizer)


@pytest.fixture
def generate(tiny_chat: TinyChat) -> Pipeline:
    """Generates text."""
    return pipeline("text-generation", model=tiny_chat.model, tokenizer=tiny_chat.tokenizer)


@pytest.fixture
def spans(classify: Pipeline, tag: Pipeline, generate: Pipeline) -> Iterator[Spans]:
    """Every pipeline's module is imported by now."""
    assert classify.task
    assert tag.task
    assert generate.task
    with hooked(TransformersHook, TransformersPipelinesHook) as spans:
        yield spans


def config() -> BertConfig:
    return BertConfig(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        pad_token_id=2,
    )


class Texts(Dataset[str]):
    """A data set."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> str:
        if index >= self._length:
            raise IndexError(index)
        return TEXT


def test_one_input_is_preprocessed_forwarded_and_postprocessed(
    spans: Spans, classify: Pipeline
) -> None:
    (answer,) = classify(TEXT)

    assert set(answer) == {"label", "score"}
    assert spans.names == [
        "tokenize",
        "preprocess",
        "forward",
        "postprocess",
        "pipeline text-classification",
    ]
    assert spans.stages == [
        Stage.TOKENIZE,
        Stage.PREPROCESS,
        Stage.FORWARD,
        Stage.POSTPROCESS,
        None,
    ]
    whole = spans.all[-1].get_span_context()
    assert [span.parent for span in spans.all[1:4]] == [whole] * 3
    assert TEXT not in attribute_text(spans)


def test_what_generates_is_prefill_and_decode_within_the_forward_pass(
    spans: Spans, generate: Pipeline
) -> None:
    generate(TEXT, max_new_tokens=4, do_sample=False)

    (prefill,), (decode,) = spans.of(Stage.PREFILL), spans.of(Stage.DECODE)
    (forward,) = spans.of(Stage.FORWARD)
    (generation,) = (span for span in spans.all if span.name == "generate")
    assert generation.parent == forward.get_span_context()
    assert prefill.parent == decode.parent == generation.get_span_context()
    assert len(spans.of(Stage.POSTPROCESS)) == 1


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_list_is_one_call_with_a_span_for_each_batch(
    spans: Spans, classify: Pipeline, batch_size: int
) -> None:
    answers = classify([TEXT] * 8, batch_size=batch_size)

    assert len(answers) == 8
    assert spans.stages == [Stage.FORWARD] * (8 // batch_size) + [None]
    whole = spans.all[-1]
    assert interval_stages(whole) == PARTS
    assert {span.parent.span_id for span in spans.all[:-1] if span.parent} == {
        whole.get_span_context().span_id
    }


@pytest.mark.parametrize("lazy", ["generator", "data set"])
def test_what_is_consumed_lazily_is_one_call_until_it_is_exhausted(
    spans: Spans, classify: Pipeline, lazy: str
) -> None:
    inputs: Any = (TEXT for _ in range(3)) if lazy == "generator" else Texts(3)
    answers = classify(inputs)
    before = list(spans.all)

    texts = list(answers)

    assert before == []
    assert len(texts) == 3
    assert spans.stages == [Stage.FORWARD] * 3 + [None]
    assert interval_stages(spans.all[-1]) == PARTS


def test_an_iterator_that_is_dropped_half_way_ends_as_cancelled(
    spans: Spans, classify: Pipeline
) -> None:
    answers = classify(TEXT for _ in range(9))
    next(answers := iter(answers))

    del answers
    gc.collect()

    assert spans.stages == [Stage.FORWARD, None]
    assert spans.all[-1].attributes[semconv.CANCELLED] is True
    assert spans.all[-1].end_time is not None


def test_a_data_set_of_any_length_has_a_bounded_number_of_spans(
    spans: Spans, generate: Pipeline
) -> None:
    answers = list(generate(Texts(80), max_new_tokens=2, do_sample=False))

    assert len(answers) == 80
    assert len(spans.of(Stage.FORWARD)) == 32
    assert len(spans.all) == 32 * 4 + 1
    whole = spans.all[-1]
    assert len(intervals_of(whole)) <= 64
    assert interval_stages(whole) >= {Stage.FORWARD, Stage.PREPROCESS, Stage.POSTPROCESS}


def test_a_pipeline_of_chunks_does_not_count_its_forward_passes_as_preprocessing(
    spans: Spans, tag: Pipeline
) -> None:
    tag(TEXT)

    (forward,) = spans.of(Stage.FORWARD)
    whole = spans.all[-1]
    assert interval_stages(whole) == PARTS
    assert forward.start_time is not None
    assert whole.start_time is not None
    at_ns = forward.start_time - whole.start_time
    assert not any(interval.start_ns < at_ns < interval.end_ns for interval in intervals_of(whole))


def test_what_a_pipeline_raises_passes_through(spans: Spans, classify: Pipeline) -> None:
    def fail(**_: object) -> None:
        raise LookupError("a secret")

    classify.model.forward = fail

    with pytest.raises(LookupError):
        classify(TEXT)

    assert spans.all[-1].status.status_code is StatusCode.ERROR
    assert spans.all[-1].attributes[semconv.ERROR_TYPE] == "LookupError"
    assert "secret" not in attribute_text(spans)
