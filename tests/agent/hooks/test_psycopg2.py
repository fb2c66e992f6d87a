"""The hook of psycopg2, beyond what `test_psycopg` tests of both, against PostgreSQL itself."""

from contextlib import closing

import psycopg2
from psycopg2.extras import DictConnection, DictCursor, DictRow

from latencytrace.agent.hooks.psycopg2 import Psycopg2Hook
from tests.support.agent.hooked import hooked, in_request


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
