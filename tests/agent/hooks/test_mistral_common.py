"""The hook of mistral-common, with a vocabulary made on the spot."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from latencytrace.agent.hooks.tokenizing import MistralCommonHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
mistral = pytest.importorskip("mistral_common.tokens.tokenizers.mistral")
requests = pytest.importorskip("mistral_common.protocol.instruct.request")
messages = pytest.importorskip("mistral_common.protocol.instruct.messages")

HOOKS = (MistralCommonHook,)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tokenizer whose tokens are bytes."""
    vocabulary = [
        {"rank": rank, "token_bytes": base64.b64encode(bytes([rank])).decode(), "token_str": None}
        for rank in range(256)
    ]
    config = {
        "pattern": ".", "num_vocab_tokens": 256, "default_vocab_size": 1256,
        "default_num_special_tokens": 1000, "version": "v3",
    }  # fmt: skip
    file = Path(tmp_path_factory.mktemp("model")) / "tekken.json"
    file.write_text(json.dumps({"config": config, "vocab": vocabulary, "version": 1}))
    return mistral.MistralTokenizer.from_file(str(file))


def test_a_chat_is_one_span_of_tokenizing(spans: Spans, tokenizer: Any) -> None:
    asked = requests.ChatCompletionRequest(messages=[messages.UserMessage(content="a secret")])
    found: list[Any] = []

    in_request(spans, lambda: found.append(tokenizer.encode_chat_completion(asked)))

    assert (spans.names, spans.stages[0]) == (
        ["encode_chat_completion", "request"], Stage.TOKENIZE,
    )  # fmt: skip
    tokens = len(found[0].tokens)
    assert spans.all[0].attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == tokens > 8
    assert "secret" not in attribute_text(spans)


def test_a_text_is_encoded_and_tokens_are_decoded(spans: Spans, tokenizer: Any) -> None:
    inner = tokenizer.instruct_tokenizer.tokenizer

    in_request(spans, lambda: tokenizer.decode(inner.encode("where", bos=False, eos=False)))

    assert spans.stages[:2] == [Stage.TOKENIZE, Stage.DETOKENIZE]
    assert spans.names == ["encode", "decode", "request"]
