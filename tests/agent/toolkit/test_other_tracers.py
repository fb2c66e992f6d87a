"""Where contrib's instrumentation traces a call, its span is the only one, in either order."""

import asyncio
import importlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from latencytrace.agent.hooks.aiohttp import AiohttpHook
from latencytrace.agent.hooks.httpx import HttpxHook
from latencytrace.agent.hooks.postgres import PsycopgHook
from latencytrace.agent.hooks.redis import RedisHook
from latencytrace.agent.hooks.requests import RequestsHook
from latencytrace.agent.hooks.sqlalchemy import SqlalchemyHook
from latencytrace.agent.hooks.sqlite import SqliteHook
from latencytrace.agent.hooks.urllib3 import Urllib3Hook
from latencytrace.agent.timing.hook import Hook
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans, hooked, in_request
from tests.support.databases.caches import redis_server
from tests.support.servers.postgres import program, serving_postgres
from tests.support.servers.recording import RecordingServer

Call = Callable[[str], None]


def by_httpx(url: str) -> None:
    with importlib.import_module("httpx").Client() as client:
        client.get(url)


def by_httpx_async(url: str) -> None:
    async def ask() -> None:
        async with importlib.import_module("httpx").AsyncClient() as client:
            await client.get(url)

    asyncio.run(ask())


def by_requests(url: str) -> None:
    importlib.import_module("requests").get(url, timeout=30)


def by_urllib3(url: str) -> None:
    with importlib.import_module("urllib3").PoolManager() as pool:
        pool.request("GET", url)


def by_aiohttp(url: str) -> None:
    aiohttp = importlib.import_module("aiohttp")

    async def ask() -> None:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            await answer.read()

    asyncio.run(ask())


def by_sqlite(_: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.cursor().execute("SELECT 1")
    connection.close()


CASES: dict[str, tuple[type[Hook], Call, str]] = {
    "httpx": (HttpxHook, by_httpx, "httpx:HTTPXClientInstrumentor"),
    "httpx, async": (HttpxHook, by_httpx_async, "httpx:HTTPXClientInstrumentor"),
    "requests": (RequestsHook, by_requests, "requests:RequestsInstrumentor"),
    "urllib3": (Urllib3Hook, by_urllib3, "urllib3:URLLib3Instrumentor"),
    "aiohttp": (AiohttpHook, by_aiohttp, "aiohttp_client:AioHttpClientInstrumentor"),
    "sqlite3": (SqliteHook, by_sqlite, "sqlite3:SQLite3Instrumentor"),
}


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with RecordingServer() as server:
        yield server


def contribs(name: str) -> Any:
    module, kind = name.split(":")
    return getattr(pytest.importorskip(f"opentelemetry.instrumentation.{module}"), kind)()


@pytest.mark.parametrize("kind", ["SyncOpenTelemetryTransport", "AsyncOpenTelemetryTransport"])
def test_theirs_is_the_only_span_where_a_client_is_given_their_transport(
    server: RecordingServer, kind: str
) -> None:
    httpx = pytest.importorskip("httpx")
    made = getattr(pytest.importorskip("opentelemetry.instrumentation.httpx"), kind)
    spans = Spans()

    def ask() -> None:
        if kind.startswith("Sync"):
            transport = made(httpx.HTTPTransport(), tracer_provider=spans.provider)
            with httpx.Client(transport=transport) as client:
                client.get(server.url)
        else:
            asyncio.run(ask_async())

    async def ask_async() -> None:
        transport = made(httpx.AsyncHTTPTransport(), tracer_provider=spans.provider)
        async with httpx.AsyncClient(transport=transport) as client:
            await client.get(server.url)

    with hooked(HttpxHook, spans=spans):
        in_request(spans, ask)

    (theirs,) = (span for span in spans.all if span.name != "request")
    assert semconv.STAGE not in theirs.attributes


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours first", "theirs first"])
@pytest.mark.parametrize(("hook", "call", "name"), CASES.values(), ids=list(CASES))
def test_theirs_is_the_only_span_of_a_call(
    server: RecordingServer, hook: type[Hook], call: Call, name: str, *, ours_first: bool
) -> None:
    spans, other = Spans(), contribs(name)
    if not ours_first:
        other.instrument(tracer_provider=spans.provider)
    try:
        with hooked(hook, spans=spans):
            if ours_first:
                other.instrument(tracer_provider=spans.provider)
            in_request(spans, lambda: call(server.url))
    finally:
        other.uninstrument()

    (theirs,) = (span for span in spans.all if span.name != "request")
    assert semconv.STAGE not in theirs.attributes
    assert [one.headers["traceparent"].split("-")[2] for one in server.received] in (
        [],
        [f"{theirs.span_id:016x}"],
    )


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours first", "theirs first"])
def test_theirs_is_the_only_span_of_a_statement_of_sqlalchemy(*, ours_first: bool) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    if sqlalchemy.__version__ >= "2.1":
        pytest.skip("contrib instruments SQLAlchemy before 2.1")
    spans, other = Spans(), contribs("sqlalchemy:SQLAlchemyInstrumentor")

    def ask() -> None:
        engine = sqlalchemy.create_engine("sqlite://")
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("SELECT 1"))
        engine.dispose()

    if not ours_first:
        other.instrument(tracer_provider=spans.provider)
    try:
        with hooked(SqlalchemyHook, SqliteHook, spans=spans):
            if ours_first:
                other.instrument(tracer_provider=spans.provider)
            in_request(spans, ask)
    finally:
        other.uninstrument()

    ours = {span.name for span in spans.all if semconv.STAGE in span.attributes}
    assert ours == {"COMMIT", "ROLLBACK"}  # of which contrib has no span
    assert len([span for span in spans.all if span.name.startswith("SELECT")]) == 1


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours first", "theirs first"])
def test_theirs_is_the_only_span_of_a_command_of_redis(
    tmp_path: Path, *, ours_first: bool
) -> None:
    redis, spans, other = (
        pytest.importorskip("redis"),
        Spans(),
        contribs("redis:RedisInstrumentor"),
    )

    async def await_it(socket: str) -> None:
        async with redis.asyncio.Redis(unix_socket_path=socket) as client:
            await client.set("key", "1")

    def ask(socket: str) -> None:
        with redis.Redis(unix_socket_path=socket) as client, client.pipeline() as pipeline:
            client.get("key")
            pipeline.set("key", "1")
            pipeline.execute()
        asyncio.run(await_it(socket))

    if not ours_first:
        other.instrument(tracer_provider=spans.provider)
    try:
        with redis_server(tmp_path) as socket, hooked(RedisHook, spans=spans):
            if ours_first:
                other.instrument(tracer_provider=spans.provider)
            in_request(spans, lambda: ask(socket))
    finally:
        other.uninstrument()

    assert len(spans.all) == 4
    assert not any(semconv.STAGE in span.attributes for span in spans.all)


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours first", "theirs first"])
def test_theirs_is_the_only_span_of_a_statement_of_psycopg(*, ours_first: bool) -> None:
    psycopg, spans = pytest.importorskip("psycopg"), Spans()
    other = contribs("psycopg:PsycopgInstrumentor")
    if program("initdb") is None:
        pytest.skip("PostgreSQL is not installed")

    async def await_it(address: str) -> None:
        async with await psycopg.AsyncConnection.connect(address) as connection:
            await connection.execute("SELECT 2")

    def ask(address: str) -> None:
        with psycopg.connect(address) as connection:
            connection.execute("SELECT 1")
        asyncio.run(await_it(address))

    if not ours_first:
        other.instrument(tracer_provider=spans.provider)
    try:
        with serving_postgres() as address, hooked(PsycopgHook, spans=spans):
            if ours_first:
                other.instrument(tracer_provider=spans.provider)
            in_request(spans, lambda: ask(address))
    finally:
        other.uninstrument()

    assert spans.names == ["SELECT", "SELECT", "request"]
    assert not any(semconv.STAGE in span.attributes for span in spans.all)
