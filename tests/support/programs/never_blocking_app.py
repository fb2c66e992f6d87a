"""A program whose event loop must not be blocked, as blockbuster watches; traced, or told so.

    python -m tests.support.programs.never_blocking_app before|after

It prints what the agent says of itself, and what its routes answered.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import httpx
from blockbuster import BlockBuster
from fastapi import BackgroundTasks, FastAPI
from fastapi.responses import StreamingResponse

import latencytrace
from tests.support.servers.serving import get, serving

if sys.argv[1] == "before":
    BlockBuster().activate()
latencytrace.instrument()
if sys.argv[1] == "after":
    BlockBuster().activate()

PATHS = ("/lock", "/stream", "/thread", "/call", "/hold")
app = FastAPI()
lock = asyncio.Lock()


@app.get("/lock")
async def waits(tasks: BackgroundTasks) -> None:
    tasks.add_task(bool)
    async with lock:
        await asyncio.sleep(0.01)
    with latencytrace.stage("retrieve"):
        pass


@app.get("/stream")
async def streams() -> StreamingResponse:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(5):
            await asyncio.sleep(0)
            yield b"x"

    return StreamingResponse(chunks())


@app.get("/thread")
def runs_in_a_thread() -> None:
    pass


@app.get("/call")
async def calls() -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        await client.get(f"{url}/lock")


@app.get("/hold")
async def holds() -> int:
    return sum(range(1_000_000))


with serving(app) as url, ThreadPoolExecutor(4) as clients:
    urls = [f"{url}{path}" for path in PATHS]
    answers = [*map(get, urls), *clients.map(get, 3 * urls)]
said = latencytrace.agent_status()
statuses = [answer.status for answer in answers]
json.dump({"statuses": statuses, "faults": said.faults, "error": said.last_error}, sys.stdout)
