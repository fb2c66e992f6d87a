"""The hook of psycopg 3, and what psycopg2's has in common with it, against PostgreSQL itself."""

import asyncio
from contextlib import closing
from types import ModuleType

import psycopg
import psycopg2
import pytest
from psycopg import sql

from latencytrace.agent.hooks.postgres import Psycopg2Hook, PsycopgHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request

HOOKS = (PsycopgHook, Psycopg2Hook)
both = pytest.mark.parametrize("driver", [psycopg, psycopg2], ids=["psycopg", "psycopg2"])


@both
def test_statements_of_cursors_are_spans(spans: Spans, postgres: str, driver: ModuleType) -> None:
    def work() -> None:
        with closing(driver.connect(postgres)) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TEMPORARY TABLE passages (key int, text text)")
            rows = [(1, "a secret"), (2, "another")]
            cursor.executemany("INSERT INTO passages VALUES (%s, %s)", rows)
            cursor.execute("SELECT key FROM passages WHERE text = %s", ("a secret",))
            assert cursor.fetchall() == [(1,)]

    in_request(spans, work)

    assert spans.names == ["CREATE passages", "INSERT passages", "SELECT passages", "request"]
    assert dict(spans.all[2].attributes) == {
        semconv.STAGE: Stage.DATABASE,
        semconv.DB_SYSTEM_NAME: "postgresql",
        semconv.DB_OPERATION_NAME: "SELECT",
        semconv.DB_COLLECTION_NAME: "passages",
    }
    assert "secret" not in attribute_text(spans)


@both
@pytest.mark.parametrize("operator", ["<=>", "<->"])
def test_a_search_by_vectors_is_retrieving_and_its_error_is_its_own(
    spans: Spans, postgres: str, driver: ModuleType, operator: str
) -> None:
    statement = "SELECT key FROM passages ORDER BY vector OP %s".replace("OP", operator)

    def work() -> None:
        with (
            closing(driver.connect(postgres)) as connection,
            connection.cursor() as cursor,
            pytest.raises(driver.errors.UndefinedTable),
        ):
            cursor.execute(statement, ("[1, 2]",))

    in_request(spans, work)

    (search,) = spans.of(Stage.RETRIEVE)
    assert search.attributes[semconv.ERROR_TYPE] == "UndefinedTable"


def test_statements_of_connections_and_streams_of_cursors_are_spans(
    spans: Spans, postgres: str
) -> None:
    def work() -> None:
        with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
            composed = sql.SQL("SELECT {} AS answer").format("a secret")
            assert connection.execute(composed).fetchall() == [("a secret",)]
            assert list(cursor.stream("SELECT 1")) == [(1,)]

    in_request(spans, work)

    assert spans.names == ["SELECT", "SELECT", "request"]
    assert "secret" not in attribute_text(spans)


def test_an_async_connection_is_timed_while_it_is_awaited(spans: Spans, postgres: str) -> None:
    async def work() -> None:
        async with await psycopg.AsyncConnection.connect(postgres) as connection:
            found = await connection.execute("SELECT 21 * 2 AS answer")
            assert await found.fetchall() == [(42,)]
            cursor = connection.cursor()
            assert [row async for row in cursor.stream("SELECT 1")] == [(1,)]

    in_request(spans, lambda: asyncio.run(work()))

    assert spans.names == ["SELECT", "SELECT", "request"]
    assert {span.parent_id for span in spans.all[:-1]} == {spans.all[-1].span_id}
