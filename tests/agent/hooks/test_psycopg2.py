"""The hook of psycopg2, against a PostgreSQL server of the test's own."""

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
from psycopg2.extras import DictConnection, DictCursor, DictRow

from latencytrace.agent.hooks.psycopg2 import Psycopg2Hook
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
    with hooked(Psycopg2Hook) as spans:
        yield spans


def test_statements_of_cursors_are_spans(spans: Spans, server: str) -> None:
    def work() -> None:
        with closing(psycopg2.connect(server)) as connection, connection.cursor() as cursor:
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


def test_a_search_by_vectors_is_retrieving_and_its_error_is_its_own(
    spans: Spans, server: str
) -> None:
    def work() -> None:
        with (
            closing(psycopg2.connect(server)) as connection,
            connection.cursor() as cursor,
            pytest.raises(psycopg2.errors.UndefinedTable),
        ):
            cursor.execute("SELECT key FROM passages ORDER BY vector <-> %s", ("[1, 2]",))

    in_request(spans, work)

    (search,) = spans.of(Stage.RETRIEVE)
    assert search.attributes[semconv.ERROR_TYPE] == "UndefinedTable"


def test_factories_of_the_programs_own_are_kept(spans: Spans, server: str) -> None:
    def work() -> None:
        with closing(psycopg2.connect(server, cursor_factory=DictCursor)) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT 42 AS answer")
            assert isinstance(cursor, DictCursor)
            assert cursor.fetchone()["answer"] == 42
        with closing(psycopg2.connect(server, connection_factory=DictConnection)) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT 42 AS answer")
            assert isinstance(cursor.fetchone(), DictRow)

    in_request(spans, work)

    assert spans.names == ["SELECT", "request"]
