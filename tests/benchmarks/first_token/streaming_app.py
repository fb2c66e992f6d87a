"""An application that generates with `transformers` in its own process, and streams in many ways.

python -m tests.benchmarks.first_token.streaming_app MODEL_FOLDER PORT
"""

import json
import sys
import threading
from collections.abc import Iterator
from typing import Final

import torch
import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    StoppingCriteriaList,
    TextIteratorStreamer,
)

TOKENS: Final = 40
HIDDEN: Final = 60  # tokens of reasoning that never leave

app = FastAPI()
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(sys.argv[1])


def pieces(tokens: int) -> Iterator[str]:
    """The text of an answer, as transformers' own streamer cuts it: at first it is empty."""
    streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, timeout=60)
    inputs = tokenizer("where did the milliseconds go", return_tensors="pt")
    options = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False}
    left = threading.Event()
    criteria = [lambda ids, _: torch.full((len(ids),), left.is_set())]
    more = {"streamer": streamer, "stopping_criteria": StoppingCriteriaList(criteria)}
    threading.Thread(target=model.generate, kwargs={**inputs, **options, **more}).start()
    try:
        yield from streamer
    finally:
        left.set()  # else it went on beside the next one


def event(delta: dict[str, str]) -> str:
    """A chunk of a chat completion."""
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n"


def together(texts: Iterator[str], each: int) -> Iterator[str]:
    """So many pieces at a time."""
    held: list[str] = []
    for text in texts:
        if text:
            held.append(text)
        if len(held) == each:
            yield "".join(held)
            held = []
    if held:
        yield "".join(held)


def after(texts: Iterator[str], words: int) -> Iterator[str]:
    """What follows so many words."""
    for text in texts:
        words -= len(text.split())
        if words < 0:
            yield text


@app.get("/health")
def health() -> str:
    """Say that it serves."""
    return "ok"


@app.get("/text")
def text() -> StreamingResponse:
    """Plain text, as txtai and many examples stream it; the first chunk is empty."""
    return StreamingResponse(pieces(TOKENS), media_type="text/plain")


@app.get("/four")
def four() -> StreamingResponse:
    """Four words a chunk."""
    return StreamingResponse(together(pieces(TOKENS), 4), media_type="text/plain")


@app.get("/hidden")
def hidden() -> StreamingResponse:
    """The reasoning is kept back."""
    return StreamingResponse(after(pieces(TOKENS + HIDDEN), HIDDEN), media_type="text/plain")


@app.get("/events")
def events() -> StreamingResponse:
    """A role, comments and empty deltas, then one event a piece."""

    def chunks() -> Iterator[str]:
        yield event({"role": "assistant", "content": ""})
        for piece in pieces(TOKENS):
            yield event({"content": piece}) if piece else ": nothing yet\n\n"
        yield "data: [DONE]\n\n"

    return StreamingResponse(chunks(), media_type="text/event-stream")


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
