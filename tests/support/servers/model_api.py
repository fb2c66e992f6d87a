"""A server that speaks like OpenAI's, in a thread; it says nothing that nobody asked for."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = ("one", "two", "three")
USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 3,
    "total_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 4},
}
RESPONSE = {
    "id": "r", "object": "response", "created_at": 1, "model": "tiny-1", "status": "completed",
    "output": [], "parallel_tool_calls": False, "tool_choice": "auto", "tools": [],
    "usage": {
        "input_tokens": 7, "output_tokens": 3, "total_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
}  # fmt: skip


class ModelApi(ThreadingHTTPServer):
    """Answers; how often it fails first, and when a stream goes on, is up to the test."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.failures = 0  # that come before the next answer
        self.parents: list[str | None] = []  # `traceparent` of each request
        self.go_on = threading.Event()  # after the first word of a stream
        self.go_on.set()

    @property
    def url(self) -> str:
        """Base address, as clients want it."""
        return f"http://127.0.0.1:{self.server_port}/v1"


def _chunk(delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {
        "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny-1",
        "choices": [choice],
    }  # fmt: skip


def _chat_chunks(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield _chunk({"role": "assistant", "content": ""})
    for word in WORDS:
        yield _chunk({"content": word})
    yield _chunk({}, "stop")
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield {**_chunk({}), "choices": [], "usage": USAGE}


def _response_events() -> Iterator[dict[str, Any]]:
    yield {
        "type": "response.created",
        "sequence_number": 0,
        "response": {**RESPONSE, "usage": None},
    }
    for number, word in enumerate(WORDS, 1):
        yield {
            "type": "response.output_text.delta", "sequence_number": number, "delta": word,
            "item_id": "i", "output_index": 0, "content_index": 0, "logprobs": [],
        }  # fmt: skip
    yield {"type": "response.completed", "sequence_number": 9, "response": RESPONSE}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelApi

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        self.server.parents.append(self.headers.get("traceparent"))
        if self.server.failures:
            self.server.failures -= 1
            self._answer({"error": {"message": "busy"}}, 503)
        elif path.endswith("/chat/completions") and asked.get("stream"):
            self._stream(_chat_chunks(asked), 1)
        elif path.endswith("/chat/completions"):
            message = {"role": "assistant", "content": " ".join(WORDS)}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._answer(
                {**_chunk({}), "object": "chat.completion", "choices": [choice], "usage": USAGE}
            )
        elif path.endswith("/responses") and asked.get("stream"):
            self._stream(_response_events(), 1)
        elif path.endswith("/responses"):
            self._answer(RESPONSE)
        elif path.endswith("/embeddings"):
            vectors = [
                {"object": "embedding", "index": at, "embedding": [0.5, 0.5]}
                for at, _ in enumerate(asked["input"])
            ]
            usage = {"prompt_tokens": 5, "total_tokens": 5}
            self._answer({"object": "list", "model": "tiny-e", "data": vectors, "usage": usage})
        else:
            self._answer({"error": {"message": "no such address"}}, 404)

    def _answer(self, document: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("retry-after-ms", "1")
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, events: Iterator[dict[str, Any]], held_after: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for number, event in enumerate(events):
                if number == held_after + 1:
                    self.server.go_on.wait(40)
                kind = event.get("type")
                named = f"event: {kind}\n" if kind else ""
                self.wfile.write(f"{named}data: {json.dumps(event)}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:  # who asked has enough
            pass
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving_models() -> Iterator[ModelApi]:
    """The server, while it runs."""
    with ModelApi() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.go_on.set()
            server.shutdown()
            thread.join()
