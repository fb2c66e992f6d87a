"""`latencytrace run -- transformers serve`, unchanged, with a model made on the spot."""

import json
import sys
from pathlib import Path

import pytest

from latencytrace.model import Stage
from tests.support.agent.receiving import ReceivedSpan, Receiver
from tests.support.agent.two_requests import ask_while_another_is_answered, stages
from tests.support.models.tiny_chat import TinyChat, tiny_chat
from tests.support.servers.traced_server import traced_server

ROUTE = "/v1/chat/completions"
EVERY = {
    Stage.PREPROCESS,
    Stage.TOKENIZE,
    Stage.QUEUE,
    Stage.PREFILL,
    Stage.DECODE,
    Stage.DETOKENIZE,
}
# It starts in 8 s on an idle machine, most of it the import of torch and transformers.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and its tokenizer, as `transformers serve` finds them."""
    folder = tmp_path_factory.mktemp("model")
    chat: TinyChat = tiny_chat()
    chat.model.save_pretrained(folder)
    chat.tokenizer.save_pretrained(folder)
    return folder


def body(tokens: int, *, stream: bool) -> dict[str, object]:
    """A request whose answer never ends before its last token."""
    generation = {"max_new_tokens": tokens, "do_sample": False, "eos_token_id": 63}
    return {
        "messages": [{"role": "user", "content": "where did the milliseconds go"}],
        "generation_config": json.dumps(generation),
        "stream": stream,
    }


def the(name: str, spans: list[ReceivedSpan]) -> ReceivedSpan:
    (found,) = (span for span in spans if span.name == name)
    return found


@pytest.mark.long
def test_each_request_has_its_own_stages_and_its_wait_for_the_inference_thread(
    receiver: Receiver, tmp_path: Path, model_folder: Path
) -> None:
    command = (sys.executable, "-m", "transformers.cli.transformers", "serve", str(model_folder))
    options = ("--host", "127.0.0.1", "--port", "PORT", "--device", "cpu")

    with traced_server(
        receiver, tmp_path, *command, *options, ready="/health", HF_HUB_OFFLINE="1"
    ) as server:
        ask_while_another_is_answered(
            server,
            ROUTE,
            streamed=body(400, stream=True),
            whole=body(4, stream=False),
            sign='"content"',
        )
        requests = server.spans(f"POST {ROUTE}", 2)

    first, second = (server.trace(request) for request in requests)
    assert EVERY | {Stage.RESPOND} <= stages(first)
    assert stages(second) >= EVERY
    for request, trace in zip(requests, (first, second), strict=True):
        waiting, generation = the("queue", trace), the("generate", trace)
        assert waiting.end_ns <= generation.start_ns
        assert waiting.parent_id == generation.parent_id == request.span_id
    # One thread serves all: who came second waited for the first one's last token.
    assert the("queue", second).end_ns >= the("generate", first).end_ns
