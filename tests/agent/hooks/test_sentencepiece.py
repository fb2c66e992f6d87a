"""The hook of `sentencepiece`, with a model that is trained for the test."""

import io
from typing import Any

import pytest
import sentencepiece

from latencytrace.agent.hooks.tokenizing import SentencepieceHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text

HOOKS = (SentencepieceHook,)


@pytest.fixture(scope="module")
def processor() -> Any:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a secret of a model"] * 50),
        model_writer=model,
        vocab_size=20,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.mark.parametrize(
    ("encode", "decode"),
    [
        ("encode", "decode"),
        ("Encode", "Decode"),
        ("EncodeAsIds", "DecodeIds"),
        ("encode_as_pieces", "decode_pieces"),
    ],
)
def test_a_text_and_its_tokens_are_a_span_each_by_whatever_name(
    spans: Spans,
    processor: Any,
    encode: str,
    decode: str,
) -> None:
    tokens = getattr(processor, encode)("a secret")

    assert getattr(processor, decode)(tokens) == "a secret"
    assert spans.names == ["encode", "decode"]
    assert spans.stages == [Stage.TOKENIZE, Stage.DETOKENIZE]
    assert "secret" not in attribute_text(spans)


def test_several_texts_are_one_span_with_their_number(
    spans: Spans,
    processor: Any,
) -> None:
    processor.encode(["a secret", "a model"])

    assert spans.only.attributes[semconv.BATCH_SIZE] == 2
