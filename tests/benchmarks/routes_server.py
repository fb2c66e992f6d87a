"""Ordinary routes for `bench_routes.py`: `python routes_server.py PORT HOW SERVICE`.

Args:
    PORT: Where it listens.
    HOW: What traces it.
    SERVICE: Base address of a service that answers every post at once.
"""

import asyncio
import gc
import sys
from collections.abc import Sequence
from functools import cache, partial
from typing import Annotated

import aiohttp
import httpx
import requests
import sqlalchemy
import urllib3
from fastapi import Depends, FastAPI, Header
from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.gzip import GZipMiddleware
from opentelemetry.trace import get_tracer
from pydantic import BaseModel
from sqlalchemy.pool import StaticPool

from tests.benchmarks.request_server import agent, hello, serve, stream, trace

CALLS = 4  # of another service, in a request that makes some
QUERIES = 5
STAGES = 50
TENANTS = 100
CLIENTS = ("httpx", "aiohttp-client", "requests", "urllib3", "sqlalchemy")  # of contrib's

app = FastAPI()
app.add_middleware(CORSMiddleware, allow_origins=["*"])
app.add_middleware(GZipMiddleware, minimum_size=500)
app.get("/agent")(agent)
app.get("/hello")(hello)
app.get("/stream")(stream)


@app.get("/collect")
async def collect() -> dict[str, str]:
    """Collect all garbage: a collection of what starting left, 0.1 s, is no request's."""
    gc.collect()
    return {}


class Question(BaseModel):
    """What is asked for."""

    text: str
    tenant: int = 0
    limit: int = 5


class Answer(BaseModel):
    """What is found."""

    text: str
    tenant: int
    passages: list[str]


def limits(x_limit: Annotated[int, Header()] = 5) -> int:
    """Read a header, on a thread, as FastAPI calls what is not async."""
    return x_limit


async def tenant(question: Question) -> int:
    """Depend on what was asked."""
    return question.tenant % TENANTS


Tenant = Annotated[int, Depends(tenant)]
Limit = Annotated[int, Depends(limits)]


def answered(question: Question, of: int, limit: int, parts: Sequence[int]) -> Answer:
    """Return an answer of some parts, given their lengths."""
    return Answer(
        text=question.text, tenant=of, passages=[f"passage {each}" for each in parts[:limit]]
    )


@app.post("/rag")
async def rag(question: Question, of: Tenant, limit: Limit) -> Answer:
    """Ask a service four things at once, with httpx."""
    calls = [
        over_httpx().post(f"{sys.argv[3]}/search", json={"query": question.text, "part": part})
        for part in range(CALLS)
    ]
    return answered(
        question, of, limit, [len(each.content) for each in await asyncio.gather(*calls)]
    )


@app.post("/aiohttp")
async def with_aiohttp(question: Question, of: Tenant, limit: Limit) -> Answer:
    """Ask the same with aiohttp."""

    async def ask(part: int) -> int:
        body = {"query": question.text, "part": part}
        async with over_aiohttp().post(f"{sys.argv[3]}/search", json=body) as answer:
            return len(await answer.read())

    return answered(question, of, limit, await asyncio.gather(*map(ask, range(CALLS))))


@app.post("/requests")
def with_requests(question: Question, of: Tenant, limit: Limit) -> Answer:
    """Ask one after another with requests, on a thread."""
    asked = [
        over_requests().post(
            f"{sys.argv[3]}/search", json={"query": question.text, "part": part}, timeout=60
        )
        for part in range(CALLS)
    ]
    return answered(question, of, limit, [len(each.content) for each in asked])


@app.post("/urllib3")
def with_urllib3(question: Question, of: Tenant, limit: Limit) -> Answer:
    """Ask one after another with urllib3, on a thread."""
    url = f"{sys.argv[3]}/search"
    asked = [
        over_urllib3().request("POST", url, json={"query": question.text, "part": part})
        for part in range(CALLS)
    ]
    return answered(question, of, limit, [len(each.data) for each in asked])


@app.post("/def")
def plain(question: Question, of: Tenant, limit: Limit) -> Answer:
    """Answer on a thread, and call nobody."""
    return answered(question, of, limit, range(limit))


@app.post("/sql")
def with_sqlalchemy(question: Question, of: Tenant, limit: Limit) -> Answer:
    """Ask a database of this process's own, on a thread."""
    with database().connect() as connection:
        found = [
            connection.execute(sqlalchemy.text("SELECT :part + 1"), {"part": part}).scalar_one()
            for part in range(QUERIES)
        ]
    return answered(question, of, limit, found)


@app.post("/executor")
async def on_threads(question: Question, of: Tenant, limit: Limit) -> Answer:
    """Do work on threads of asyncio's pool."""
    loop = asyncio.get_running_loop()
    done = [loop.run_in_executor(None, partial(sorted, range(100))) for _ in range(CALLS)]
    return answered(question, of, limit, list(map(len, await asyncio.gather(*done))))


@app.post("/stages")
async def staged(question: Question, of: Tenant, limit: Limit) -> Answer:
    """Make fifty spans of the program's own, by OpenTelemetry's interface."""
    tracer = get_tracer(__name__)
    for _ in range(STAGES):
        with tracer.start_as_current_span("step"):
            pass
    return answered(question, of, limit, [limit])


@cache
def over_httpx() -> httpx.AsyncClient:
    """Return the one client, which keeps its connections, as all of these do."""
    return httpx.AsyncClient(timeout=60)


@cache
def over_aiohttp() -> aiohttp.ClientSession:
    """Return the one session."""
    return aiohttp.ClientSession()


@cache
def over_requests() -> requests.Session:
    """Return the one session."""
    return requests.Session()


@cache
def over_urllib3() -> urllib3.PoolManager:
    """Return the one pool."""
    return urllib3.PoolManager()


@cache
def database() -> sqlalchemy.Engine:
    """Return an engine of a database in memory."""
    return sqlalchemy.create_engine(  # looked up now: contrib has put its own there
        "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )


if __name__ == "__main__":
    trace(sys.argv[2], app, CLIENTS)
    serve(app)
