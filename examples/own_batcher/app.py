"""An embedding server with a batcher of its own: requests wait in a queue, one worker serves many.

latencytrace run -- uvicorn --app-dir examples/own_batcher app:app
curl localhost:8000/embed --json '{"text": "Where did the milliseconds go?"}'
"""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
from fastapi import FastAPI, Request
from numpy.typing import NDArray
from pydantic import BaseModel, Field

import latencytrace

BUCKETS, DIMENSIONS = 16_384, 256
MOST_TOGETHER = 16
WAIT_S = 0.005  # for company

Vector = NDArray[np.float32]


@dataclass
class Job:
    """A text that waits, and the ticket that says whose it is."""

    text: str
    done: asyncio.Future[Vector]
    ticket: latencytrace.Ticket = field(default_factory=latencytrace.enqueue)


class Encoder:
    """Embeds texts: counts of hashed words, projected and normalised."""

    def __init__(self) -> None:
        drawn = np.random.default_rng(0).standard_normal((BUCKETS, DIMENSIONS), dtype=np.float32)
        self._projection = drawn / np.sqrt(DIMENSIONS)

    def encode(self, texts: list[str]) -> Vector:
        counts = np.zeros((len(texts), BUCKETS), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                counts[row, zlib.crc32(word.encode()) % BUCKETS] += 1
        vectors = counts @ self._projection
        lengths: Vector = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.maximum(lengths, 1e-9)


class Text(BaseModel):
    text: str = Field(min_length=1, max_length=10_000)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.jobs = asyncio.Queue(maxsize=1000)
    worker = asyncio.create_task(serve(app.state.jobs, Encoder()))
    yield
    worker.cancel()


app = FastAPI(title="own_batcher", lifespan=lifespan)


@app.post("/embed")
async def embed(text: Text, request: Request) -> list[float]:
    jobs: asyncio.Queue[Job] = request.app.state.jobs
    job = Job(text.text, asyncio.get_running_loop().create_future())
    await jobs.put(job)
    vector: list[float] = (await job.done).tolist()
    return vector


@app.get("/healthz")
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


async def serve(jobs: asyncio.Queue[Job], encoder: Encoder) -> None:
    """Serve jobs together, for ever."""
    while True:
        together = [await jobs.get()]
        await asyncio.sleep(WAIT_S)
        while len(together) < MOST_TOGETHER and not jobs.empty():
            together.append(jobs.get_nowait())
        async with latencytrace.batch([job.ticket for job in together], stage="embed"):
            vectors = await asyncio.to_thread(encoder.encode, [job.text for job in together])
        for job, vector in zip(together, vectors, strict=True):
            if not job.done.done():  # its caller may have hung up
                job.done.set_result(vector)
