"""The hook of `tiktoken`, with an encoding whose tokens are bytes."""

import pytest
import tiktoken

from latencytrace.agent.hooks.threads import ThreadsHook
from latencytrace.agent.hooks.tokenizing import TiktokenHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request, intervals_of
from tests.support.agent.waiting_requests import served

HOOKS = (ThreadsHook, TiktokenHook)


@pytest.fixture(scope="module")
def encoding() -> tiktoken.Encoding:
    ranks = {bytes([byte]): byte for byte in range(256)}
    return tiktoken.Encoding("bytes", pat_str=r"\w+|\W", mergeable_ranks=ranks, special_tokens={})


def test_a_text_is_encoded_in_a_span_with_its_number_of_tokens(
    spans: Spans, encoding: tiktoken.Encoding
) -> None:
    assert len(encoding.encode("a secret")) == 8

    assert (spans.only.name, dict(spans.only.attributes)) == (
        "encode",
        {semconv.STAGE: Stage.TOKENIZE, semconv.GEN_AI_USAGE_INPUT_TOKENS: 8},
    )
    assert "secret" not in attribute_text(spans)


def test_texts_that_are_encoded_together_on_threads_are_one_span(
    spans: Spans, encoding: tiktoken.Encoding
) -> None:
    assert encoding.encode_batch(["ab", "c"]) == [[97, 98], [99]]

    assert spans.only.name == "encode_batch"
    assert spans.only.attributes[semconv.BATCH_SIZE] == 2


def test_tokens_are_decoded_in_a_span(spans: Spans, encoding: tiktoken.Encoding) -> None:
    assert encoding.decode([97, 98]) == "ab"

    assert spans.stages == [Stage.DETOKENIZE]


def test_a_text_that_is_counted_piece_by_piece_leaves_a_bounded_number_of_spans(
    spans: Spans, encoding: tiktoken.Encoding
) -> None:
    in_request(spans, lambda: [encoding.encode("a") for _ in range(300)])
    in_request(spans, lambda: encoding.encode("a"))

    assert len(spans.of(Stage.TOKENIZE)) == 256 + 1


def test_pieces_beyond_those_that_have_a_span_keep_their_time(
    spans: Spans, encoding: tiktoken.Encoding
) -> None:
    with served(spans):
        for _ in range(300):
            encoding.encode("a")

    (request,) = spans.of(None)
    assert len(spans.of(Stage.TOKENIZE)) == 256
    assert [each.stage for each in intervals_of(request)] == [Stage.TOKENIZE] * 44
