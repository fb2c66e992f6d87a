"""The hook of Python's own `sqlite3`, statements and searches."""

import asyncio
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import aiosqlite
import pytest

from latencytrace.agent.hooks.sqlite import SqliteHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request

HOOKS = (SqliteHook,)


@pytest.fixture
def connection(spans: Spans) -> Iterator[sqlite3.Connection]:
    assert spans.all == []
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE passages (key INTEGER PRIMARY KEY, text TEXT)")
    connection.execute("INSERT INTO passages (text) VALUES ('a secret')")
    yield connection
    connection.close()


def test_statements_of_connections_and_cursors_are_spans(
    spans: Spans, connection: sqlite3.Connection
) -> None:
    found: list[object] = []

    def work() -> None:
        found.extend(connection.execute("SELECT text FROM passages WHERE key = ?", (1,)))
        cursor = connection.cursor()
        cursor.executemany("INSERT INTO passages (text) VALUES (?)", [("one",), ("two",)])
        found.append(cursor.execute("SELECT count(*) FROM passages").fetchone())
        connection.executescript("DELETE FROM passages; -- a secret")

    in_request(spans, work)

    assert found == [("a secret",), (3,)]
    assert spans.names == [
        "SELECT passages", "INSERT passages", "SELECT passages", "DELETE passages", "request",
    ]  # fmt: skip
    assert dict(spans.all[0].attributes) == {
        semconv.STAGE: Stage.DATABASE,
        semconv.DB_SYSTEM_NAME: "sqlite",
        semconv.DB_OPERATION_NAME: "SELECT",
        semconv.DB_COLLECTION_NAME: "passages",
    }
    assert "secret" not in attribute_text(spans)


def test_a_search_of_texts_is_retrieving(spans: Spans, connection: sqlite3.Connection) -> None:
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text)")
    connection.executemany("INSERT INTO texts VALUES (?)", [("of prefill",), ("of decode",)])
    nearest = "SELECT text FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT 2"
    found: list[object] = []

    in_request(spans, lambda: found.extend(connection.execute(nearest, ("decode",))))

    assert found == [("of decode",)]
    assert [span.name for span in spans.of(Stage.RETRIEVE)] == ["SELECT texts"]


def test_what_sqlite_raises_passes_through(spans: Spans, connection: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError):
        in_request(spans, lambda: connection.execute("SELECT nothing FROM nowhere"))

    assert spans.all[0].attributes[semconv.ERROR_TYPE] == "OperationalError"


def test_a_statement_through_aiosqlite_belongs_to_who_awaits_it(spans: Spans) -> None:
    async def work() -> None:
        async with aiosqlite.connect(":memory:") as connection:
            for _ in range(2):
                timing = spans.recorder.start("request")
                timing.activate()
                await connection.execute("SELECT 1")
                timing.deactivate()
                timing.end()

    asyncio.run(work())

    requests = [span.span_id for span in spans.all if span.name == "request"]
    assert [span.parent_id for span in spans.all if span.name == "SELECT"] == requests
    assert len(requests) == 2


def test_what_connects_goes_to_another_process_as_ever(spans: Spans) -> None:
    for connect in (sqlite3.connect, sqlite3.dbapi2.connect):
        sent = pickle.dumps(partial(connect, ":memory:"))
        pickle.loads(sent)().close()  # noqa: S301 - our own
        program = "import pickle, sys; pickle.load(sys.stdin.buffer)().close()"
        subprocess.run([sys.executable, "-c", program], input=sent, check=True)  # untraced

    assert spans.all == []


def test_a_factory_of_the_programs_own_is_kept(spans: Spans) -> None:
    class Own(sqlite3.Connection):
        def double(self) -> int:
            return int(self.execute("SELECT 21").fetchone()[0]) * 2

    connection = sqlite3.connect(":memory:", factory=Own)
    answers: list[int] = []
    in_request(spans, lambda: answers.append(connection.double()))
    connection.close()

    assert isinstance(connection, Own)
    assert (answers, spans.names) == ([42], ["SELECT", "request"])


def test_a_statement_outside_of_any_request_is_none_of_its_own(
    spans: Spans, connection: sqlite3.Connection
) -> None:
    connection.execute("SELECT 1")

    assert spans.all == []


def test_a_connection_looks_as_it_did(connection: sqlite3.Connection) -> None:
    assert isinstance(connection, sqlite3.Connection)
    assert isinstance(connection.cursor(), sqlite3.Cursor)
    assert type(connection).__name__ == "Connection"
    with connection:
        connection.execute("SELECT 1")
    assert next(iter(connection.iterdump())) == "BEGIN TRANSACTION;"
