"""A small program that does what serving programs do, and says what came of it."""

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import faiss
import fastapi
import flask
import httpx
import numpy as np
import requests
from fastapi.responses import StreamingResponse
from opentelemetry import trace
from pydantic import BaseModel
from requests.adapters import BaseAdapter
from werkzeug.test import Client as FlaskClient

import latencytrace
from tests.support.programs.traced_programs import (
    children,
    decorated,
    exceptions,
    links_and_events,
    renamed,
    statuses,
)

FLUSH_S = 0.2


class OwnError(Exception):
    """What the program itself raises."""


def outcome(call: Callable[[], object]) -> object:
    """What a call returns or raises."""
    try:
        return call()
    except OwnError as error:
        return "raised", error.args, type(error.__cause__), type(error.__context__)


# --- stages, of functions of every kind


@latencytrace.stage("rerank", size=3)
def doubled(number: int) -> int:
    """Twice as much, but of nothing."""
    if not number:
        raise OwnError("nothing")
    return 2 * number


@latencytrace.stage("rerank")
async def doubled_later(number: int) -> int:
    """The same, asynchronously."""
    await asyncio.sleep(0)
    return doubled(number)


@latencytrace.stage("decode")
def counted(number: int) -> Generator[int, None, None]:
    """So many numbers, then an error."""
    yield from range(number)
    raise OwnError("the end")


@latencytrace.stage("decode")
async def counted_later(number: int) -> AsyncIterator[int]:
    """The same, asynchronously."""
    for one in range(number):
        yield one
    raise OwnError("the end")


def stages() -> object:
    """Blocks and functions that are timed as stages."""
    with latencytrace.stage("a name of my own", key="value"):
        inside = doubled(2)

    def block() -> None:
        with latencytrace.stage("prefill"):
            raise OwnError("within")

    half = counted(3)
    next(half)
    half.close()
    taken: list[int] = []

    async def all_of_it() -> None:
        async for one in counted_later(2):
            taken.append(one)  # noqa: PERF401 - it raises, and what came before is kept

    return (
        inside,
        outcome(block),
        outcome(lambda: doubled(0)),
        outcome(lambda: asyncio.run(doubled_later(3))),
        outcome(lambda: asyncio.run(doubled_later(0))),
        outcome(lambda: list(counted(2))),
        outcome(lambda: asyncio.run(all_of_it())),
        taken,
    )


def batches() -> object:
    """A batcher of the program's own."""
    with latencytrace.stage("endpoint"):
        tickets = [latencytrace.enqueue(tokens=3), latencytrace.enqueue()]
        unused = latencytrace.enqueue()

    def failing() -> None:
        with latencytrace.batch(tickets, "embed"):
            raise OwnError("in a batch")

    async def working() -> int:
        async with latencytrace.batch(tickets, stage="forward", size=2):
            return 4

    del unused
    return outcome(failing), outcome(lambda: asyncio.run(working()))


def by_hand() -> object:
    """Spans through OpenTelemetry's interface."""
    tracer = trace.get_tracer("program", "1.0", attributes={"a": 1})
    for program in (children, links_and_events, statuses, renamed, exceptions, decorated):
        program(tracer)
    with tracer.start_span("full", attributes={str(n): n for n in range(130)}) as span:
        span.set_attributes({"one": "more", "list": [1, {"two": 3}]})
    return tracer is not None


# --- threads and libraries


def threads() -> object:
    """Threads and pools that a request starts."""
    done: list[object] = []
    with latencytrace.stage("endpoint"):
        thread = threading.Thread(target=done.append, args=("thread",))
        thread.start()
        thread.join()
        with ThreadPoolExecutor(1) as pool:
            done.append(pool.submit(doubled, 4).result())
            done.append(outcome(pool.submit(doubled, 0).result))
    return done


class Question(BaseModel):
    """What is asked."""

    text: str


def application() -> fastapi.FastAPI:
    """A server that answers, streams and fails."""
    app = fastapi.FastAPI()

    @app.post("/ask")
    async def ask(question: Question) -> dict[str, object]:
        return {"answer": await doubled_later(len(question.text))}

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            for part in (b"one", b"two"):
                yield part

        return StreamingResponse(parts())

    @app.get("/fail")
    async def fail() -> None:
        raise OwnError("of the endpoint")

    return app


APPLICATION = application()


def asgi() -> object:
    """Requests to an ASGI application, through httpx."""

    async def requested() -> list[object]:
        transport = httpx.ASGITransport(APPLICATION)
        answers: list[object] = []
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
            answer = await client.post("/ask", json={"text": "abc"})
            answers += [answer.status_code, answer.json()]
            async with client.stream("GET", "/stream") as streamed:
                answers += [part async for part in streamed.aiter_bytes()]
            answers.append((await client.post("/ask", json={})).status_code)
            answers.append((await client.get("/nowhere")).status_code)
            try:
                await client.get("/fail")
            except OwnError as error:
                answers.append(error.args)
        return answers

    return asyncio.run(requested())


def flask_application() -> flask.Flask:
    """A server that answers, streams and fails."""
    app = flask.Flask("program")
    app.testing = True
    app.add_url_rule("/", "root", lambda: "answer")
    app.add_url_rule("/stream", "stream", lambda: flask.Response(iter([b"one", b"two"])))

    def fail() -> str:
        raise OwnError("of the view")

    app.add_url_rule("/fail", "fail", fail)
    return app


FLASK_APPLICATION = flask_application()


def wsgi() -> object:
    """Requests to a WSGI application."""
    client = FlaskClient(FLASK_APPLICATION)
    return (
        client.get("/").data,
        client.get("/stream", headers={"X-Request-Start": "t=1"}).data,
        client.get("/nowhere").status_code,
        outcome(lambda: client.get("/fail")),
    )


class Canned(BaseAdapter):
    """Answers without a network."""

    def send(self, request: requests.PreparedRequest, **_: object) -> requests.Response:  # type: ignore[override]  # told nothing else
        """Answer one request."""
        if request.url == "http://canned/fail":
            raise OwnError("of the network")
        answer = requests.Response()
        answer.status_code = 200
        answer.raw = io.BytesIO(b"canned")
        answer.request, answer.url = request, str(request.url)
        return answer

    def close(self) -> None:
        """Hold nothing."""


def clients() -> object:
    """Requests to other services, made with requests and httpx."""

    def answered(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/fail":
            raise OwnError("of the network")
        return httpx.Response(200, content=b"canned")

    with (
        requests.Session() as session,
        httpx.Client(transport=httpx.MockTransport(answered), base_url="http://canned") as client,
    ):
        session.mount("http://canned", Canned())
        streamed = session.get("http://canned/stream", stream=True)
        return (
            session.get("http://canned/").content,
            list(streamed.iter_content(2)),
            outcome(lambda: session.get("http://canned/fail").content),
            client.get("/").content,
            outcome(lambda: client.get("/fail").content),
        )


def search() -> object:
    """A search in an index."""
    index = faiss.IndexFlatL2(2)
    index.add(np.eye(2, dtype=np.float32))
    distances, found = index.search(np.zeros((1, 2), dtype=np.float32), 1)
    return distances.tolist(), found.tolist()


PARTS: tuple[Callable[[], object], ...] = (
    stages,
    batches,
    by_hand,
    threads,
    asgi,
    wsgi,
    clients,
    search,
)


def run() -> list[Any]:
    """All of it, and what came of it."""
    outcomes: list[Any] = [part() for part in PARTS]
    latencytrace.flush(FLUSH_S)
    latencytrace.agent_status()
    return outcomes
