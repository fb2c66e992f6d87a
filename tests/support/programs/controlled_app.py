"""An application with waits whose place is known: the control of the controls."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import latencytrace

CHUNKS = 64
CHUNK_BYTES = 256 * 1024  # more than any socket buffers, so that a slow client is felt
DECODE_MS = 2

SAID = "tell me a secret"  # what the application's exceptions tell

app = FastAPI()
one_thread = ThreadPoolExecutor(1)
both = asyncio.Barrier(2)
decoded_ns: list[int] = []


class IndexNotLoadedError(RuntimeError):
    """What a search raises."""


@app.get("/hidden/{milliseconds}")
def hidden(milliseconds: int) -> int:
    """Wait where no hook can see it; how long it took in nanoseconds."""
    began_ns = time.perf_counter_ns()
    time.sleep(milliseconds / 1000)
    return time.perf_counter_ns() - began_ns


@app.get("/queued/{milliseconds}")
async def queued(milliseconds: int) -> str:
    """Two at once want the only thread: one of them waits as long as the other works."""
    await both.wait()
    await asyncio.get_running_loop().run_in_executor(one_thread, time.sleep, milliseconds / 1000)
    return "waited"


@app.get("/failing")
def failing() -> None:
    """Fail in a step of its own."""
    with latencytrace.stage("retrieve"):
        raise IndexNotLoadedError(SAID)


@app.get("/stream")
def stream() -> StreamingResponse:
    """Decode a little, send a lot, and again."""
    decoded_ns.clear()

    def chunks() -> Iterator[bytes]:
        for _ in range(CHUNKS):
            with latencytrace.stage("decode"):
                decoded_ns.append(hidden(DECODE_MS))
            yield bytes(CHUNK_BYTES)

    return StreamingResponse(chunks())


@app.get("/decoded")
def decoded() -> list[int]:
    """How long each chunk of the last stream was decoded, in nanoseconds."""
    return decoded_ns
