"""A chat server that streams the answer of a remote model, over any API that speaks OpenAI's.

OPENAI_API_KEY=… latencytrace run -- uvicorn --app-dir examples/streaming_llm app:app
curl -N localhost:8000/chat --json '{"question": "Where did the milliseconds go?"}'

OPENAI_BASE_URL names another server, such as a vLLM of your own: http://127.0.0.1:8001/v1
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from openai import AsyncOpenAI
from pydantic import BaseModel, Field

import latencytrace

MODEL = os.environ.get("CHAT_MODEL") or "gpt-4o-mini"
FORBIDDEN = ("password", "secret")


class Question(BaseModel):
    question: str = Field(min_length=1, max_length=2000)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncOpenAI() as client:
        app.state.client = client
        yield


app = FastAPI(title="streaming_llm", lifespan=lifespan)


@app.post("/chat")
async def chat(question: Question, request: Request) -> StreamingResponse:
    client: AsyncOpenAI = request.app.state.client
    if not is_allowed(question.question):
        return StreamingResponse(iter(["I cannot talk about that."]), media_type="text/plain")
    return StreamingResponse(answer(client, question.question), media_type="text/plain")


@app.get("/healthz")
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


@latencytrace.stage("guardrail")
def is_allowed(question: str) -> bool:
    return not any(word in question.lower() for word in FORBIDDEN)


async def answer(client: AsyncOpenAI, question: str) -> AsyncIterator[str]:
    """Yield the answer as it comes; a caller who hangs up ends the call of the model, too."""
    stream = await client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": question}],
        stream=True,
        stream_options={"include_usage": True},
    )
    async with stream:
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content
