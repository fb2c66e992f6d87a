"""The hook of psycopg 3, against a PostgreSQL server of the test's own."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from latencytrace.agent.hooks.psycopg import PsycopgHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked, in_request
from tests.support.servers.postgres import program, serving_postgres

pytestmark = pytest.mark.skipif(program("initdb") is None, reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving_postgres() as address:
        yield address


@pytest.fixture
def spans() -> Iterator[Spans]:
    with hooked(PsycopgHook) as spans:
        yield spans


def test_statements_of_connections_and_cursors_are_spans(spans: Spans, server: str) -> None:
    def work() -> None:
        with psycopg.connect(server) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TEMPORARY TABLE passages (key int, text text)")
            rows = [(1, "a secret"), (2, "another")]
            cursor.executemany("INSERT INTO passages VALUES (%s, %s)", rows)
            composed = sql.SQL("SELECT key FROM passages WHERE text = {}").format("a secret")
            assert connection.execute(composed).fetchall() == [(1,)]
            assert list(cursor.stream("SELECT key FROM passages ORDER BY key")) == [(1,), (2,)]

    in_request(spans, work)

    assert spans.names == [
        "CREATE passages", "INSERT passages", "SELECT passages", "SELECT passages", "request",
    ]  # fmt: skip
    assert dict(spans.all[2].attributes) == {
        semconv.STAGE: Stage.DATABASE,
        semconv.DB_SYSTEM_NAME: "postgresql",
        semconv.DB_OPERATION_NAME: "SELECT",
        semconv.DB_COLLECTION_NAME: "passages",
    }
    assert "secret" not in attribute_text(spans)


def test_a_search_by_vectors_is_retrieving_and_its_error_is_its_own(
    spans: Spans, server: str
) -> None:
    def work() -> None:
        with psycopg.connect(server) as connection, pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT key FROM passages ORDER BY vector <=> %s", ("[1, 2]",))

    in_request(spans, work)

    (search,) = spans.of(Stage.RETRIEVE)
    assert search.attributes[semconv.ERROR_TYPE] == "UndefinedTable"


def test_an_async_connection_is_timed_while_it_is_awaited(spans: Spans, server: str) -> None:
    async def work() -> None:
        async with await psycopg.AsyncConnection.connect(server) as connection:
            found = await connection.execute("SELECT 21 * 2 AS answer")
            assert await found.fetchall() == [(42,)]
            cursor = connection.cursor()
            assert [row async for row in cursor.stream("SELECT 1")] == [(1,)]

    in_request(spans, lambda: asyncio.run(work()))

    assert spans.names == ["SELECT", "SELECT", "request"]
    assert {span.parent_id for span in spans.all[:-1]} == {spans.all[-1].span_id}
