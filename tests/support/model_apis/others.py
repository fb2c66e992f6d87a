"""Wire formats of Anthropic, Gemini, Cohere, Ollama and Bedrock, as they document them."""

import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from tests.support.model_apis.server import WORDS, Answer, Stream, events

_TEXT = " ".join(WORDS)


def anthropic(path: str, asked: Any) -> Answer | Stream | None:
    """Answer as Anthropic's messages do."""
    if path != "/v1/messages":
        return None
    usage = {"input_tokens": 3, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0}
    message = {
        "id": "m", "type": "message", "role": "assistant", "model": "tiny-1",
        "content": [{"type": "text", "text": _TEXT}], "stop_reason": "end_turn",
        "stop_sequence": None, "usage": {**usage, "output_tokens": 3},
    }  # fmt: skip
    if not asked.get("stream"):
        return Answer(message)

    def documents() -> Iterator[dict[str, Any]]:
        began = {**message, "content": [], "stop_reason": None}
        yield {
            "type": "message_start",
            "message": {**began, "usage": {**usage, "output_tokens": 1}},
        }
        block = {"type": "text", "text": ""}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        for word in WORDS:
            delta = {"type": "text_delta", "text": word}
            yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        ended = {"stop_reason": "end_turn", "stop_sequence": None}
        yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 3}}
        yield {"type": "message_stop"}

    return Stream("text/event-stream", events(documents()), held_after=2)


def gemini(path: str, asked: Any) -> Answer | Stream | None:
    """Answer as Gemini's API does."""

    def part(text: str, reason: str | None = None) -> dict[str, Any]:
        content = {"role": "model", "parts": [{"text": text}]}
        candidate = {"content": content, **({"finishReason": reason} if reason else {})}
        counts = {"promptTokenCount": 7, "candidatesTokenCount": 2, "thoughtsTokenCount": 1}
        return {
            "candidates": [candidate], "modelVersion": "tiny-1",
            "usageMetadata": {**counts, "cachedContentTokenCount": 4},
        }  # fmt: skip

    if path.endswith(":generateContent"):
        return Answer(part(_TEXT, "STOP"))
    if path.endswith(":streamGenerateContent"):
        *first, last = WORDS
        chunks = (*(part(word) for word in first), part(last, "STOP"))
        return Stream("text/event-stream", events(iter(chunks)), held_after=0)
    if path.endswith(":batchEmbedContents"):
        return Answer({"embeddings": [{"values": [0.5, 0.5]} for _ in asked["requests"]]})
    return None


def cohere(path: str, asked: Any) -> Answer | Stream | None:
    """Answer as the second version of Cohere's API does."""
    usage = {"tokens": {"input_tokens": 7.0, "output_tokens": 3.0}}
    billed = {"meta": {"billed_units": {"input_tokens": 5}}}
    if path == "/v2/embed":
        vectors = [[0.5, 0.5] for _ in asked["texts"]]
        return Answer({"id": "e", "embeddings": {"float": vectors}, "texts": [], **billed})
    if path == "/v2/rerank":
        results = [
            {"index": at, "relevance_score": 0.5} for at, _ in enumerate(asked["documents"])
        ]
        return Answer({"id": "r", "results": results, **billed})
    if path == "/v1/chat":
        return _cohere_v1(asked)
    if path != "/v2/chat":
        return None
    message = {"role": "assistant", "content": [{"type": "text", "text": _TEXT}]}
    if not asked.get("stream"):
        return Answer({"id": "c", "finish_reason": "COMPLETE", "message": message, "usage": usage})

    def documents() -> Iterator[dict[str, Any]]:
        began = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}
        yield {"type": "message-start", "id": "c", "delta": {"message": began}}
        for word in WORDS:
            delta = {"message": {"content": {"text": word}}}
            yield {"type": "content-delta", "index": 0, "delta": delta}
        yield {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": usage}}

    return Stream("text/event-stream", events(documents()))


def _cohere_v1(asked: Any) -> Answer | Stream:
    """Answer as the first version does, which streams lines of JSON."""
    counts = {"billed_units": {"input_tokens": 7.0, "output_tokens": 3.0}}
    whole = {"text": _TEXT, "generation_id": "g", "finish_reason": "COMPLETE", "meta": counts}
    if not asked.get("stream"):
        return Answer(whole)
    parts = [{"event_type": "text-generation", "text": word} for word in WORDS]
    ended = {"event_type": "stream-end", "finish_reason": "COMPLETE", "response": whole}
    lines = (json.dumps(each).encode() + b"\n" for each in (*parts, ended))
    return Stream("application/stream+json", lines)


def ollama(path: str, asked: Any) -> Answer | Stream | None:
    """Answer as Ollama does, which streams lines unless it is told not to."""
    counts = {"prompt_eval_count": 7, "eval_count": 3}
    times = {"load_duration": 1000, "prompt_eval_duration": 2000, "eval_duration": 3000}
    ended = {"done": True, "done_reason": "stop", "total_duration": 9000, **times, **counts}
    if path == "/api/embed":
        vectors = [[0.5, 0.5] for _ in asked["input"]]
        return Answer({"model": "tiny-1", "embeddings": vectors, "prompt_eval_count": 5})
    if path not in {"/api/chat", "/api/generate"}:
        return None

    def part(text: str) -> dict[str, Any]:
        said = {"message": {"role": "assistant", "content": text}}
        return {"model": "tiny-1", **(said if path == "/api/chat" else {"response": text})}

    if asked.get("stream") is False:
        return Answer({**part(_TEXT), **ended})
    lines = (*(part(word) for word in WORDS), {**part(""), **ended})
    chunks = (json.dumps(line).encode() + b"\n" for line in lines)
    return Stream("application/x-ndjson", chunks, held_after=0)


def bedrock(path: str, asked: Any) -> Answer | Stream | None:
    """Answer as Bedrock's runtime does; its streams are binary, each event with two checksums."""
    usage = {
        "inputTokens": 3, "outputTokens": 3, "totalTokens": 10, "cacheReadInputTokens": 4,
    }  # fmt: skip
    if path.endswith("/converse"):
        message = {"role": "assistant", "content": [{"text": _TEXT}]}
        return Answer(
            {
                "output": {"message": message},
                "stopReason": "end_turn",
                "usage": usage,
                "metrics": {"latencyMs": 1},
            }
        )
    if path.endswith("/invoke"):
        counts = (
            ("x-amzn-bedrock-input-token-count", "7"),
            (
                "x-amzn-bedrock-output-token-count",
                "3",
            ),
        )
        return Answer({"completion": _TEXT, "asked": bool(asked)}, counts)
    if path.endswith("/converse-stream"):
        told: list[tuple[str, dict[str, Any]]] = [("messageStart", {"role": "assistant"})]
        told += [
            ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": word}})
            for word in WORDS
        ]
        told += [
            ("messageStop", {"stopReason": "end_turn"}),
            ("metadata", {"usage": usage, "metrics": {"latencyMs": 1}}),
        ]
        chunks = (_aws_event(kind, document) for kind, document in told)
        return Stream("application/vnd.amazon.eventstream", chunks)
    return None


def _aws_event(kind: str, document: dict[str, Any]) -> bytes:
    """Write one event: lengths with a checksum, headers, the document, a checksum of all."""
    named = {":message-type": "event", ":event-type": kind, ":content-type": "application/json"}
    headers = b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack(">H", len(value))
        + value.encode()
        for name, value in named.items()
    )
    payload = json.dumps(document).encode()
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    event = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + payload
    return event + struct.pack(">I", zlib.crc32(event))
