"""The hook of FlagEmbedding, with models of random weights."""

from pathlib import Path
from typing import Any

import pytest

from latencytrace.agent.hooks.text_models import FlagEmbeddingHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text

pytestmark = pytest.mark.filterwarnings("ignore")  # of how it is made
flag = pytest.importorskip("FlagEmbedding", exc_type=ImportError)

HOOKS = (FlagEmbeddingHook,)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where an encoder lies, and a classifier."""
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        BertModel,
    )

    from tests.support.models.tiny_chat import tiny_chat

    made: Path = tmp_path_factory.mktemp("model")
    tokenizer = tiny_chat().tokenizer
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, num_labels=1,
    )  # fmt: skip
    for name, kind in (("encoder", BertModel), ("classifier", BertForSequenceClassification)):
        kind(config).save_pretrained(made / name)
        tokenizer.save_pretrained(made / name)
    return made


def test_an_embedding_is_one_span_of_its_texts(spans: Spans, folder: Path) -> None:
    model: Any = flag.FlagModel(str(folder / "encoder"), use_fp16=False, devices="cpu")

    found = model.encode_queries(["where did", "the milliseconds go"])

    assert found.shape == (2, 16)
    assert (spans.names, spans.stages) == (["encode_queries"], [Stage.EMBED])
    assert spans.only.attributes[semconv.BATCH_SIZE] == 2
    assert "milliseconds" not in attribute_text(spans)


def test_re_ranking_is_one_span_of_its_pairs(spans: Spans, folder: Path) -> None:
    model: Any = flag.FlagReranker(str(folder / "classifier"), use_fp16=False, devices="cpu")

    model.compute_score([("where", "did"), ("the", "go")])

    assert (spans.names, spans.stages) == (["compute_score"], [Stage.RERANK])
