"""An application with waits whose place is known: the control of the controls."""

import asyncio
import threading
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
are_asked = threading.Event()
idle_since_ns: int | None = None  # when the last chunk was handed over; None: one is decoded


class IndexNotLoadedError(RuntimeError):
    """What a search raises."""


@app.get("/hidden/{milliseconds}")
def hidden(milliseconds: int) -> int:
    """Wait where no hook can see it; how long it took in nanoseconds."""
    began_ns = time.perf_counter_ns()
    time.sleep(milliseconds / 1000)
    return time.perf_counter_ns() - began_ns


@app.get("/queued/{milliseconds}")
async def queued(milliseconds: int) -> None:
    """Two at once want the only thread: one of them waits for it at least so long."""

    def work() -> None:
        are_asked.wait()
        time.sleep(milliseconds / 1000)

    done = asyncio.get_running_loop().run_in_executor(one_thread, work)
    await both.wait()
    are_asked.set()
    await done


@app.get("/failing")
def failing() -> None:
    """Fail in a step of its own."""
    with latencytrace.stage("retrieve"):
        raise IndexNotLoadedError(SAID)


@app.get("/stream")
def stream() -> StreamingResponse:
    """Decode a little, send a lot, and again."""

    def chunks() -> Iterator[bytes]:
        global idle_since_ns  # noqa: PLW0603 - asked for by another request
        for _ in range(CHUNKS):
            idle_since_ns = None
            with latencytrace.stage("decode"):
                hidden(DECODE_MS)
            idle_since_ns = time.perf_counter_ns()
            yield bytes(CHUNK_BYTES)

    return StreamingResponse(chunks())


@app.get("/idle")
def idle() -> int | None:
    """Nanoseconds since the last stream handed a chunk over; None: it decodes the next."""
    return None if idle_since_ns is None else time.perf_counter_ns() - idle_since_ns
