"""The hook of GLiNER, with a model of random weights."""

from pathlib import Path
from typing import Any

import pytest

from latencytrace.agent.hooks.text_models import GlinerHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request

pytestmark = pytest.mark.filterwarnings("ignore")  # of how it is made
gliner = pytest.importorskip("gliner")

HOOKS = (GlinerHook,)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from transformers import BertConfig, BertModel

    from tests.support.models.tiny_chat import tiny_chat

    folder: Path = tmp_path_factory.mktemp("model")
    tokenizer = tiny_chat().tokenizer
    encoder = BertConfig(
        vocab_size=len(tokenizer) + 8, hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=16,
    )  # fmt: skip
    BertModel(encoder).save_pretrained(folder / "encoder")
    tokenizer.save_pretrained(folder / "encoder")
    config = gliner.GLiNERConfig(
        model_name=str(folder / "encoder"), encoder_config=encoder.to_dict(), hidden_size=16,
        max_width=4, vocab_size=len(tokenizer) + 2,
    )  # fmt: skip
    return gliner.GLiNER.from_config(config)


def test_a_prediction_is_one_span_of_its_texts(spans: Spans, model: Any) -> None:
    texts = ["where did the milliseconds go", "into the prefill"]

    in_request(spans, lambda: model.batch_predict_entities(texts, ["thing"]))

    forwards = spans.of(Stage.FORWARD)
    assert [span.name for span in forwards] == ["predict entities"]
    assert forwards[0].attributes[semconv.BATCH_SIZE] == 2
    assert "milliseconds" not in attribute_text(spans)
