"""The hook of CTranslate2, with a model of random weights."""

from pathlib import Path
from typing import Any

import pytest

from latencytrace.agent.hooks.runtimes import Ctranslate2Hook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, in_request
from tests.support.models.tiny_chat import tiny_chat

ctranslate2 = pytest.importorskip("ctranslate2")
converters = pytest.importorskip("ctranslate2.converters")

HOOKS = (Ctranslate2Hook,)


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Any:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    tokenizer = tiny_chat().tokenizer
    tokenizer.add_special_tokens({"unk_token": "<unk>", "bos_token": "</s>", "eos_token": "</s>"})
    config = GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=32,
        bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    GPT2LMHeadModel(config).save_pretrained(folder / "of-transformers")
    tokenizer.save_pretrained(folder / "of-transformers")
    converter = converters.TransformersConverter(str(folder / "of-transformers"))
    made: str = converter.convert(str(folder / "of-ctranslate2"))
    return ctranslate2.Generator(str(Path(made)), device="cpu", inter_threads=1)


def test_a_generation_is_decoding_and_a_score_a_forward_pass(
    spans: Spans,
    generator: Any,
) -> None:
    found: list[Any] = []

    def work() -> None:
        found.append(generator.generate_batch([["where", "did"]], max_length=4, min_length=4))
        generator.score_batch([["where", "did"]])

    work()  # outside of any request
    in_request(spans, work)

    assert len(found[1][0].sequences[0]) >= 4
    assert spans.names == ["generate_batch", "score_batch", "request"]
    assert spans.stages[:2] == [Stage.DECODE, Stage.FORWARD]


def test_tokens_that_are_taken_one_by_one_are_one_span(spans: Spans, generator: Any) -> None:
    in_request(spans, lambda: list(generator.generate_tokens(["where"], max_length=3)))

    assert "generate_tokens" in spans.names
    assert spans.names.count("generate_tokens") == 1
