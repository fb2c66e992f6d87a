"""An OpenAI-compatible server that streams by a script: the model's name says how.

    python -m tests.benchmarks.first_token.scripted_engine PORT

Its tokens are words, so that a client sees how many an event carries.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Final

import uvicorn

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]

TOKENS: Final = 24
HIDDEN: Final = 40  # tokens of reasoning that never leave
PREFILL_S: Final = 0.08
TOKEN_S: Final = 0.012
_COMMENT_S: Final = 0.02


def _event(delta: dict[str, object], index: int = 0, reason: str | None = None) -> bytes:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
    return _data({"choices": [choice]})


def _data(more: dict[str, object]) -> bytes:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**chunk, **more}, separators=(",", ":")).encode() + b"\n\n"


async def _words(tokens: int, each: int = 1) -> AsyncIterator[str]:
    for first in range(0, tokens, each):
        words = range(first, min(first + each, tokens))
        await asyncio.sleep(TOKEN_S * len(words))
        yield "".join(f"word{word} " for word in words)


async def _before(way: str, choices: int) -> AsyncIterator[bytes]:
    """What leaves before the first token, and the time until then."""
    for index in range(choices):
        yield _event({"role": "assistant", "content": ""}, index)
    for _ in range(3):
        if way == "empty":
            yield _event({"content": ""})
        if way == "comments":
            yield b": ping\n\n"
            await asyncio.sleep(_COMMENT_S)
    await asyncio.sleep(PREFILL_S + (TOKEN_S * HIDDEN if way == "reasoning" else 0))


async def _text(way: str, choices: int) -> AsyncIterator[bytes]:
    number = 0
    async for words in _words(TOKENS, 4 if way == "four" else 1):
        number += 1
        if way == "comments" and not number % 5:
            yield b": ping\n\n"
        for index in range(choices):
            yield _event({"content": words}, index)


async def _tools() -> AsyncIterator[bytes]:
    call: dict[str, object] = {"index": 0, "id": "call_1", "type": "function"}
    named = {"name": "search", "arguments": ""}
    yield _event({"tool_calls": [{**call, "function": named}]})
    async for word in _words(TOKENS - 1):
        yield _event({"tool_calls": [{"index": 0, "function": {"arguments": word}}]})


async def _answer(way: str, choices: int) -> AsyncIterator[bytes]:
    """The events of one answer."""
    async for event in _before(way, choices):
        yield event
    async for event in _tools() if way == "tools" else _text(way, choices):
        yield event
    for index in range(choices):
        yield _event({}, index, "tool_calls" if way == "tools" else "stop")
    hidden = HIDDEN if way == "reasoning" else 0
    counts = {"prompt_tokens": 9, "completion_tokens": TOKENS * choices + hidden}
    told = {"reasoning_tokens": hidden} if hidden else {}
    total = sum(counts.values())
    usage = {**counts, "total_tokens": total, "completion_tokens_details": told}
    yield _data({"choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


async def application(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Send
) -> None:
    """Answer each request by the script that its model names; others with success."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    asked = json.loads(body) if body else {}
    headers = [(b"content-type", b"text/event-stream" if asked else b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if asked:
        async for event in _answer(str(asked["model"]), int(asked.get("n") or 1)):
            await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


if __name__ == "__main__":
    uvicorn.run(application, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
