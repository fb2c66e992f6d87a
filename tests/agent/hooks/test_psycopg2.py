"""The hook of psycopg2, beyond what `test_psycopg` tests of both, against PostgreSQL itself."""

from contextlib import closing

import psycopg2
from psycopg2 import sql
from psycopg2.extras import DictConnection, DictCursor, DictRow, RealDictCursor

from latencytrace.agent.hooks.postgres import Psycopg2Hook
from tests.support.agent.hooked import attribute_text, hooked, in_request


def test_factories_of_the_programs_own_are_kept(postgres: str) -> None:
    def work() -> None:
        with closing(psycopg2.connect(postgres, cursor_factory=DictCursor)) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT 42 AS answer")
            assert isinstance(cursor, DictCursor)
            assert cursor.fetchone()["answer"] == 42
        with closing(psycopg2.connect(postgres, connection_factory=DictConnection)) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT 42 AS answer")
            assert isinstance(cursor.fetchone(), DictRow)

    with hooked(Psycopg2Hook) as spans:
        in_request(spans, work)

    assert spans.names == ["SELECT", "request"]


def test_a_cursor_with_a_factory_of_its_own_is_timed(postgres: str) -> None:
    def work() -> None:
        with closing(psycopg2.connect(postgres)) as connection:
            for cursor in (
                connection.cursor(cursor_factory=RealDictCursor),
                connection.cursor(None, RealDictCursor),
            ):
                cursor.execute("SELECT 42 AS answer")
                assert dict(cursor.fetchone()) == {"answer": 42}

    with hooked(Psycopg2Hook) as spans:
        in_request(spans, work)

    assert spans.names == ["SELECT", "SELECT", "request"]


def test_a_statement_that_was_put_together_is_named_by_what_it_says(postgres: str) -> None:
    statement = sql.SQL("SELECT {} FROM {} WHERE typname = {}").format(
        sql.Identifier("typname"), sql.Identifier("pg_type"), sql.Literal("a secret")
    )

    def work() -> None:
        with closing(psycopg2.connect(postgres)) as connection:
            connection.cursor().execute(statement)

    with hooked(Psycopg2Hook) as spans:
        in_request(spans, work)

    assert spans.names == ["SELECT pg_type", "request"]
    assert "secret" not in attribute_text(spans)
