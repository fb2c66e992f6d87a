"""The hook of `valkey`, with its own clients against a server of Redis, which speaks the same."""

import asyncio
from collections.abc import Iterator

import pytest

from latencytrace.agent.hooks.redis import ValkeyHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request
from tests.support.databases.caches import redis_server

valkey = pytest.importorskip("valkey")
valkey_asyncio = pytest.importorskip("valkey.asyncio")

HOOKS = (ValkeyHook,)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server listens: a socket in a folder of its own."""
    with redis_server(tmp_path_factory.mktemp("valkey")) as socket:
        yield socket


def test_commands_and_pipelines_are_spans_of_a_request(spans: Spans, server: str) -> None:
    def work() -> None:
        with valkey.Valkey(unix_socket_path=server) as client:
            client.set("a secret", "another secret")
            assert client.get("a secret") == b"another secret"
            pipeline = client.pipeline()
            pipeline.get("a secret").zadd("a secret list", {"one": 1})
            pipeline.execute()

    in_request(spans, work)

    assert spans.names == ["SET", "GET", "PIPELINE", "request"]
    assert spans.stages[:3] == [Stage.CACHE, Stage.CACHE, Stage.DATABASE]
    assert spans.all[1].attributes[semconv.DB_SYSTEM_NAME] == "valkey"
    assert "secret" not in attribute_text(spans)


def test_commands_that_are_awaited_are_the_same(spans: Spans, server: str) -> None:
    async def work() -> None:
        async with valkey_asyncio.Valkey(unix_socket_path=server) as client:
            await client.set("key", "1")
            async with client.pipeline() as pipeline:
                pipeline.get("key").get("none")
                assert await pipeline.execute() == [b"1", None]

    in_request(spans, lambda: asyncio.run(work()))

    assert [span.name for span in spans.of(Stage.CACHE)] == ["SET", "PIPELINE"]
