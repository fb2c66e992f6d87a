"""The hook of FastEmbed, with a model of its own kind that is made here."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

from latencytrace.agent.hooks.onnxruntime import OnnxruntimeHook
from latencytrace.agent.hooks.text_models import FastembedHook
from latencytrace.agent.hooks.tokenizers import TokenizersHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text

fastembed = pytest.importorskip("fastembed")

HOOKS = (
    FastembedHook,
    OnnxruntimeHook,
    TokenizersHook,
)

NAME = "made/tiny"
WORDS = {"[PAD]": 0, "[UNK]": 1, "a": 2, "secret": 3}
WIDTH = 4


def write_model(folder: Path) -> None:
    """A table of words' vectors as an ONNX model, with its tokenizer."""
    ids = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
           for name in ("input_ids", "attention_mask")]  # fmt: skip
    states = helper.make_tensor_value_info("states", TensorProto.FLOAT, None)
    table = numpy_helper.from_array(
        np.random.default_rng(0).random((len(WORDS), WIDTH), np.float32), "table"
    )
    node = helper.make_node("Gather", ["table", "input_ids"], ["states"])
    graph = helper.make_graph([node], "tiny", ids, [states], [table])
    opset = helper.make_opsetid("", 17)
    made = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.save(made, folder / "model.onnx")
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, document in {
        "config": {"pad_token_id": 0},
        "tokenizer_config": {"model_max_length": 16, "pad_token": "[PAD]"},
        "special_tokens_map": {"pad_token": "[PAD]", "unk_token": "[UNK]"},
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(document))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from fastembed.common.model_description import ModelSource, PoolingType

    folder = tmp_path_factory.mktemp("model")
    write_model(folder)
    fastembed.TextEmbedding.add_custom_model(
        NAME,
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(hf=NAME),
        dim=WIDTH,
        model_file="model.onnx",
    )
    return fastembed.TextEmbedding(NAME, specific_model_path=str(folder))


@pytest.mark.parametrize("method", ["embed", "query_embed", "passage_embed"])
def test_an_embedding_is_one_span_until_its_last_result_is_taken(
    spans: Spans,
    model: Any,
    method: str,
) -> None:
    vectors = getattr(model, method)(["a secret", "a"])
    assert spans.all == []  # nothing is done yet

    assert [len(vector) for vector in vectors] == [WIDTH, WIDTH]

    (embedding,) = spans.of(Stage.EMBED)
    assert embedding.name == method
    assert dict(embedding.attributes) == {
        semconv.STAGE: Stage.EMBED,
        semconv.GEN_AI_REQUEST_MODEL: "tiny",
        semconv.BATCH_SIZE: 2,
    }
    assert spans.of(Stage.FORWARD) == []  # the model's run is its inner half
    assert {span.parent_id for span in spans.of(Stage.TOKENIZE)} == {embedding.span_id}
    assert "secret" not in attribute_text(spans)


def test_an_embedding_that_is_dropped_half_way_ends_its_span(spans: Spans, model: Any) -> None:
    vectors = model.embed(["a"] * 3, batch_size=1)
    next(vectors)
    vectors.close()

    (embedding,) = spans.of(Stage.EMBED)
    assert embedding.attributes[semconv.CANCELLED] is True
