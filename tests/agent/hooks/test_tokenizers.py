"""The hook of `tokenizers`, with a tokenizer made on the spot."""

from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from latencytrace.agent.hooks.tokenizers import TokenizersHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, interval_stages

HOOKS = (TokenizersHook,)
WORDS = ("where", "did", "the", "milliseconds", "go")


@pytest.fixture
def tokenizer() -> Any:
    vocabulary = {word: number for number, word in enumerate(("<unk>", *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def test_encoding_is_one_span_with_its_tokens_counted(spans: Spans, tokenizer: Any) -> None:
    encoding = tokenizer.encode(" ".join(WORDS))

    assert encoding.ids == [1, 2, 3, 4, 5]
    assert (spans.only.name, spans.stages) == ("encode", [Stage.TOKENIZE])
    assert spans.only.attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 5
    assert "milliseconds" not in attribute_text(spans)


@pytest.mark.parametrize("method", ["encode_batch", "encode_batch_fast"])
def test_encoding_a_batch_is_one_span_with_its_size(
    spans: Spans,
    tokenizer: Any,
    method: str,
) -> None:
    encodings = getattr(tokenizer, method)(["where", "did go"])

    assert [encoding.ids for encoding in encodings] == [[1], [2, 5]]
    assert spans.stages == [Stage.TOKENIZE]
    assert spans.only.attributes[semconv.BATCH_SIZE] == 2


def test_decoding_outside_a_stream_is_one_span(spans: Spans, tokenizer: Any) -> None:
    assert tokenizer.decode([1, 2]) == "where did"
    assert tokenizer.decode_batch([[1], [2]]) == ["where", "did"]

    assert spans.stages == [Stage.DETOKENIZE, Stage.DETOKENIZE]


def test_decoding_inside_a_stream_is_intervals_of_the_stream(
    spans: Spans,
    tokenizer: Any,
) -> None:
    stream = spans.recorder.start("stream")
    stream.collect_intervals()

    stream.activate()
    tokenizer.decode([1])
    tokenizer.decode([2])
    stream.deactivate()
    stream.end()

    assert spans.names == ["stream"]
    assert interval_stages(spans.only) == {Stage.DETOKENIZE}


def test_what_the_tokenizer_raises_passes_through(spans: Spans, tokenizer: Any) -> None:
    with pytest.raises(TypeError):
        tokenizer.encode(7)

    assert spans.only.attributes[semconv.ERROR_TYPE] == "TypeError"
