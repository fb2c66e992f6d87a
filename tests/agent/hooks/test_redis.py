"""The hook of `redis`, with its own clients against a server."""

import asyncio
from collections.abc import Iterator

import pytest
import redis
import redis.asyncio

from latencytrace.agent.hooks.redis import RedisHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request
from tests.support.databases.caches import redis_cluster, redis_server

HOOKS = (RedisHook,)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server of Redis listens: a socket in a folder of its own."""
    with redis_server(tmp_path_factory.mktemp("redis")) as socket:
        yield socket


@pytest.fixture
def client(server: str) -> Iterator[redis.Redis]:
    with redis.Redis(unix_socket_path=server) as client:
        yield client


def test_commands_of_a_cache_and_others_are_spans_of_a_request(
    spans: Spans, client: redis.Redis
) -> None:
    def work() -> None:
        client.set("a secret", "another secret")
        assert client.get("a secret") == b"another secret"
        client.zadd("a secret list", {"one": 1})

    client.ping()  # outside of any request
    in_request(spans, work)

    assert spans.names == ["SET", "GET", "ZADD", "request"]
    assert spans.stages[:3] == [Stage.CACHE, Stage.CACHE, Stage.DATABASE]
    assert dict(spans.all[1].attributes) == {
        semconv.STAGE: Stage.CACHE,
        semconv.DB_SYSTEM_NAME: "redis",
        semconv.DB_OPERATION_NAME: "GET",
    }
    assert "secret" not in attribute_text(spans)


def test_a_pipeline_is_one_span_with_the_number_of_its_commands(
    spans: Spans, client: redis.Redis
) -> None:
    def work() -> None:
        with client.pipeline() as pipeline:
            pipeline.set("key", "1")
            pipeline.get("key")
            assert pipeline.execute() == [True, b"1"]
            assert pipeline.execute() == []

    in_request(spans, work)

    assert (spans.names, spans.stages[0]) == (["PIPELINE", "request"], Stage.CACHE)
    assert spans.all[0].attributes[semconv.DB_OPERATION_BATCH_SIZE] == 2


def test_commands_that_are_awaited_are_the_same(spans: Spans, server: str) -> None:
    async def work() -> None:
        async with redis.asyncio.Redis(unix_socket_path=server) as client:
            await client.set("key", "1")
            async with client.pipeline() as pipeline:
                pipeline.get("key")
                pipeline.get("none")
                assert await pipeline.execute() == [b"1", None]

    in_request(spans, lambda: asyncio.run(work()))

    assert [span.name for span in spans.of(Stage.CACHE)] == ["SET", "PIPELINE"]


def test_a_search_is_retrieving_and_names_its_index(spans: Spans, client: redis.Redis) -> None:
    def work() -> None:
        with pytest.raises(redis.ResponseError):  # a server without the module
            client.ft("passages").search("a secret")

    in_request(spans, work)

    (search,) = spans.of(Stage.RETRIEVE)
    assert (search.name, search.attributes[semconv.DB_COLLECTION_NAME]) == (
        "FT.SEARCH",
        "passages",
    )
    assert search.attributes[semconv.ERROR_TYPE] == "ResponseError"
    assert "secret" not in attribute_text(spans)


def test_a_read_that_waits_for_somebody_is_no_time_of_the_server(
    spans: Spans, client: redis.Redis
) -> None:
    in_request(spans, lambda: client.blpop(["nothing"], timeout=0.01))

    assert spans.names == ["request"]


def test_the_commands_of_one_span_are_bounded(spans: Spans, client: redis.Redis) -> None:
    in_request(spans, lambda: [client.get("key") for _ in range(300)])

    assert len(spans.of(Stage.CACHE)) == 256


def test_a_command_in_one_text_is_named_by_its_first_word(
    spans: Spans, client: redis.Redis
) -> None:
    in_request(spans, lambda: client.execute_command("SET user:1 s3cret"))  # type: ignore[no-untyped-call]

    assert spans.names == ["SET", "request"]
    assert "s3cret" not in attribute_text(spans)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a cluster."""
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as port:
        yield port


def test_commands_and_pipelines_of_a_cluster_are_spans_of_a_request(
    spans: Spans, cluster: int
) -> None:
    def work() -> None:
        nodes.set("a secret", "another secret")
        assert nodes.get("a secret") == b"another secret"
        with nodes.pipeline() as pipeline:
            pipeline.set("one secret", "1")
            pipeline.get("other secret")
            assert pipeline.execute() == [True, None]
            assert pipeline.execute() == []

    with redis.RedisCluster(host="127.0.0.1", port=cluster) as nodes:
        in_request(spans, work)

    assert spans.names == ["SET", "GET", "PIPELINE", "request"]
    assert spans.stages[:3] == [Stage.CACHE] * 3
    assert spans.all[2].attributes[semconv.DB_OPERATION_BATCH_SIZE] == 2
    assert "secret" not in attribute_text(spans)


def test_those_of_its_asynchronous_client_are_too(spans: Spans, cluster: int) -> None:
    async def work() -> None:
        async with redis.asyncio.RedisCluster(host="127.0.0.1", port=cluster) as client:
            await client.ping()
            timing = spans.recorder.start("request")
            timing.activate()
            await client.set("a secret", "another secret")
            assert await client.get("a secret") == b"another secret"
            pipeline = client.pipeline()
            pipeline.set("one secret", "1")
            pipeline.zscore("a set", "x")
            assert await pipeline.execute() == [True, None]
            timing.deactivate()
            timing.end()

    asyncio.run(work())

    assert spans.names == ["SET", "GET", "PIPELINE", "request"]
    assert spans.stages[:3] == [Stage.CACHE, Stage.CACHE, Stage.DATABASE]
    assert spans.all[2].attributes[semconv.DB_OPERATION_BATCH_SIZE] == 2
    assert "secret" not in attribute_text(spans)
