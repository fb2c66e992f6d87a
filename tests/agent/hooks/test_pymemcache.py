"""The hook of `pymemcache`, with its clients against a server of memcached."""

from collections.abc import Iterator
from typing import Any

import pytest

from latencytrace.agent.hooks.pymemcache import PymemcacheHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request
from tests.support.databases.caches import memcached

base = pytest.importorskip("pymemcache.client.base")

HOOKS = (PymemcacheHook,)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with memcached(tmp_path_factory.mktemp("memcached")) as socket:
        yield socket


@pytest.fixture(params=["Client", "PooledClient"])
def client(server: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    client = getattr(base, request.param)(server)
    yield client
    client.close()


def test_commands_of_a_request_are_spans_of_its_cache(spans: Spans, client: Any) -> None:
    def work() -> None:
        client.set("secret", "another secret", noreply=False)
        assert client.get("secret") == b"another secret"
        assert client.get_many(["secret", "none"]) == {"secret": b"another secret"}
        client.delete("secret", noreply=False)

    client.get("secret")  # outside of any request
    in_request(spans, work)

    assert spans.names == ["set", "get", "get", "delete", "request"]
    assert set(spans.stages[:4]) == {Stage.CACHE}
    assert dict(spans.all[2].attributes) == {
        semconv.STAGE: Stage.CACHE,
        semconv.DB_SYSTEM_NAME: "memcached",
        semconv.DB_OPERATION_NAME: "get",
        semconv.DB_OPERATION_BATCH_SIZE: 2,
    }
    assert "secret" not in attribute_text(spans)


def test_an_error_of_the_client_passes_through(spans: Spans, client: Any) -> None:
    with pytest.raises(Exception, match="Key"):
        in_request(spans, lambda: client.get("a key with blanks"))

    assert "blanks" not in attribute_text(spans)
