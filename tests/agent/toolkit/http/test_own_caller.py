"""A program that names the caller of its request itself: its header is sent, and ours is not."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator

import aiohttp
import httpx
import pytest
import requests
import urllib3

from latencytrace.agent.hooks.aiohttp import AiohttpHook
from latencytrace.agent.hooks.httpx import HttpxHook
from latencytrace.agent.hooks.requests import RequestsHook
from latencytrace.agent.hooks.urllib3 import Urllib3Hook
from latencytrace.agent.timing.hook import Hook
from tests.support.agent.hooked import Spans, hooked, in_request
from tests.support.servers.recording import Received, RecordingServer, Response

OWN = f"00-{'a' * 32}-{'b' * 16}-01"
NAME = "Traceparent"


def by_httpx(url: str, headers: dict[str, str]) -> None:
    httpx.get(url, headers=headers, follow_redirects=True)


def by_httpx_async(url: str, headers: dict[str, str]) -> None:
    async def ask() -> None:
        async with httpx.AsyncClient(headers=headers, follow_redirects=True) as client:
            await client.get(url)

    asyncio.run(ask())


def by_requests(url: str, headers: dict[str, str]) -> None:
    requests.get(url, headers=headers, timeout=30)


def by_a_prepared_request(url: str, headers: dict[str, str]) -> None:
    with requests.Session() as session:
        prepared = session.prepare_request(requests.Request("GET", url))
        prepared.headers = OrderedDict(headers)  # type: ignore[assignment] # which it may be
        session.send(prepared, timeout=30)


def by_urllib3(url: str, headers: dict[str, str]) -> None:
    with urllib3.PoolManager(headers=headers) as pool:
        pool.request("GET", url)


def by_aiohttp(url: str, headers: dict[str, str]) -> None:
    async def ask() -> None:
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as got:
            await got.read()

    asyncio.run(ask())


def by_an_aiohttp_session(url: str, headers: dict[str, str]) -> None:
    async def ask() -> None:
        async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as got:
            await got.read()

    asyncio.run(ask())


Ask = Callable[[str, dict[str, str]], None]
CLIENTS: dict[str, tuple[type[Hook], Ask]] = {
    "httpx": (HttpxHook, by_httpx),
    "httpx, async": (HttpxHook, by_httpx_async),
    "requests": (RequestsHook, by_requests),
    "a prepared request": (RequestsHook, by_a_prepared_request),
    "urllib3": (Urllib3Hook, by_urllib3),
    "aiohttp": (AiohttpHook, by_aiohttp),
    "a session of aiohttp": (AiohttpHook, by_an_aiohttp_session),
}
every_client = pytest.mark.parametrize(("hook", "ask"), CLIENTS.values(), ids=list(CLIENTS))


def redirected(received: Received) -> Response:
    if received.path == "/first":
        return Response(302, headers={"Location": "/last"})
    return Response(200, b"ok")


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with RecordingServer(redirected) as server:
        yield server


def callers(server: RecordingServer) -> list[str | None]:
    return [received.headers.get("traceparent") for received in server.received]


@every_client
def test_a_header_of_the_programs_own_is_sent_also_when_redirected(
    server: RecordingServer, hook: type[Hook], ask: Ask
) -> None:
    spans = Spans()
    with hooked(hook, spans=spans):
        in_request(spans, lambda: ask(f"{server.url}/first", {NAME: OWN}))

    assert callers(server) == [OWN, OWN]


@every_client
def test_else_each_request_names_the_span_of_its_call(
    server: RecordingServer, hook: type[Hook], ask: Ask
) -> None:
    spans = Spans()
    with hooked(hook, spans=spans):
        in_request(spans, lambda: ask(f"{server.url}/first", {}))

    calls = [f"{span.context.span_id:016x}" for span in spans.all if span.name == "GET"]
    named = [str(caller).split("-")[2] for caller in callers(server)]
    assert set(named) == set(calls)
    assert len(named) == 2


@every_client
def test_a_host_that_is_to_get_no_headers_gets_none_and_is_one_call_a_request(
    server: RecordingServer, hook: type[Hook], ask: Ask
) -> None:
    spans, elsewhere = Spans(), Spans()
    spans.recorder.propagate_to = ("!127.*",)
    with hooked(hook, spans=spans):
        in_request(spans, lambda: ask(f"{server.url}/first", {}))
    with hooked(hook, spans=elsewhere):
        in_request(elsewhere, lambda: ask(f"{server.url}/first", {}))

    assert callers(server)[:2] == [None, None]
    assert None not in callers(server)[2:]
    assert spans.names == elsewhere.names
