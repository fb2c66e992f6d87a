"""`latencytrace run -- python -m llama_cpp.server`, unchanged."""

import sys
from pathlib import Path

import pytest

from latencytrace.model import Stage
from tests.support.agent.receiving import Receiver
from tests.support.agent.two_requests import ask_while_another_is_answered, stages
from tests.support.servers.traced_server import traced_server

pytest.importorskip("llama_cpp.server.app")
ROUTE = "/v1/completions"
OPTIONS = ("--n_ctx", "512", "--n_threads", "1", "--n_threads_batch", "1")
pytestmark = [pytest.mark.llama_cpp, pytest.mark.timeout(400)]


def body(tokens: int, *, stream: bool) -> dict[str, object]:
    """A request whose answer never ends before its last token."""
    return {
        "prompt": "where did the milliseconds go",
        "max_tokens": tokens,
        "temperature": 0,
        "logit_bias": {"2": -100.0},
        "stream": stream,
    }


def test_a_second_requests_wait_for_the_lock_is_its_queue(
    receiver: Receiver, tmp_path: Path, gguf: Path
) -> None:
    command = (sys.executable, "-m", "llama_cpp.server", "--model", str(gguf), *OPTIONS)
    server_options = ("--host", "127.0.0.1", "--port", "PORT", "--interrupt_requests", "False")

    with traced_server(
        receiver, tmp_path, *command, *server_options, ready="/v1/models"
    ) as server:
        ask_while_another_is_answered(
            server,
            ROUTE,
            streamed=body(400, stream=True),
            whole=body(4, stream=False),
            sign='"text"',
        )
        requests = server.spans(f"POST {ROUTE}", 2)

    first, second = (server.trace(request) for request in requests)
    every = {Stage.TOKENIZE, Stage.QUEUE, Stage.PREFILL, Stage.DECODE, Stage.DETOKENIZE}
    assert stages(first) >= every | {Stage.RESPOND}
    assert stages(second) >= every
    (decode,) = (span for span in first if span.stage == Stage.DECODE)
    waits = [span for span in second if span.stage == Stage.QUEUE]
    assert max(wait.end_ns for wait in waits) >= decode.end_ns
    assert {wait.parent_id for wait in waits} == {second[0].span_id}
