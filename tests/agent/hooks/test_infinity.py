"""`latencytrace run -- infinity_emb v2`, unchanged, with an encoder made on the spot."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from latencytrace.model import Stage, semconv
from tests.support.agent.batches import ask_together, members
from tests.support.agent.receiving import Receiver
from tests.support.servers.traced_server import traced_server

WORDS = [f"w{number}" for number in range(50)]
REQUESTS = 12
pytestmark = [
    pytest.mark.batchers,
    pytest.mark.timeout(400),
    pytest.mark.skipif(find_spec("infinity_emb") is None, reason="infinity-emb is not installed"),
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder with random weights, and its tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    folder = tmp_path_factory.mktemp("encoder")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        model_max_length=64,
    ).save_pretrained(folder)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
    }
    BertModel(BertConfig(vocab_size=len(vocabulary), **sizes)).save_pretrained(folder)
    return folder


def test_each_request_has_its_wait_and_its_batch_in_its_own_trace(
    receiver: Receiver, tmp_path: Path, encoder: Path
) -> None:
    command = (str(Path(sys.executable).parent / "infinity_emb"), "v2", "--model-id", str(encoder))
    options = ("--served-model-name", "m", "--engine", "torch", "--device", "cpu")
    more = ("--no-bettertransformer", "--no-compile", "--no-model-warmup", "--port", "PORT")
    quiet = {"HF_HUB_OFFLINE": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0", "HOME": os.devnull}

    with traced_server(
        receiver, tmp_path, *command, *options, *more, ready="/health", **quiet
    ) as server:
        bodies = [
            {"model": "m", "input": [" ".join(WORDS[: 3 + number])] * (1 + number % 3)}
            for number in range(REQUESTS)
        ]
        answers = ask_together(server, "/embeddings", *bodies)
        found = members(server, receiver, "POST /embeddings", REQUESTS, Stage.EMBED)

    assert [len(answer["data"]) for answer in answers] == [  # type: ignore[index] # it is a document
        1 + number % 3 for number in range(REQUESTS)
    ]
    for one in found:
        assert {interval.stage for interval in one.work.intervals} >= {
            Stage.TOKENIZE,
            Stage.POSTPROCESS,
        }
    assert any(one.step.attributes[semconv.BATCH_SIZE] != 1 for one in found)
