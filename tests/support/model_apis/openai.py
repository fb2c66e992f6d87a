"""OpenAI's wire format, which most servers speak; it says nothing that nobody asked for."""

from collections.abc import Iterator
from typing import Any

from tests.support.model_apis.server import WORDS, Answer, Stream, events

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


def _chunk(delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {
        "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny-1",
        "choices": [choice],
    }  # fmt: skip


def _chat() -> dict[str, Any]:
    message = {"role": "assistant", "content": " ".join(WORDS)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {**_chunk({}), "object": "chat.completion", "choices": [choice], "usage": USAGE}


def _chat_chunks(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield _chunk({"role": "assistant", "content": ""})
    for word in WORDS:
        yield _chunk({"content": word})
    yield _chunk({}, "stop")
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield {**_chunk({}), "choices": [], "usage": USAGE}


def _mistral_chunks() -> Iterator[dict[str, Any]]:
    yield from (_chunk({"role": "assistant", "content": word}) for word in ("", *WORDS))
    yield {**_chunk({"content": ""}, "stop"), "usage": USAGE}


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


def _stream(documents: Iterator[dict[str, Any]]) -> Stream:
    def chunks() -> Iterator[bytes]:
        yield from events(documents)
        yield b"data: [DONE]\n\n"

    return Stream("text/event-stream", chunks())


def _embeddings(asked: dict[str, Any]) -> dict[str, Any]:
    vectors = [
        {"object": "embedding", "index": at, "embedding": [0.5, 0.5]}
        for at, _ in enumerate(asked["input"])
    ]
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    return {"id": "e", "object": "list", "model": "tiny-e", "data": vectors, "usage": usage}


def openai(path: str, asked: Any) -> Answer | Stream | None:
    """Answer as OpenAI's API does."""
    call = path.rpartition("/v1/")[2]
    if call.endswith("chat/completions"):
        return _stream(_chat_chunks(asked)) if asked.get("stream") else Answer(_chat())
    if call == "responses":
        return _stream(_response_events()) if asked.get("stream") else Answer(RESPONSE)
    if call.endswith("embeddings"):
        return Answer(_embeddings(asked))
    return None


def mistral(path: str, asked: Any) -> Answer | Stream | None:
    """Answer as Mistral's API does: its last chunk has the tokens unasked."""
    if path == "/v1/chat/completions" and asked.get("stream"):
        return _stream(_mistral_chunks())
    return openai(path, asked)
