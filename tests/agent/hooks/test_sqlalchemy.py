"""The hook of SQLAlchemy, with SQLite beneath it, sync and async."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiosqlite  # noqa: F401 - a hook of these tests waits for it
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, registry
from sqlalchemy.pool import StaticPool

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.hooks.sqlalchemy import SqlalchemyHook
from latencytrace.agent.hooks.sqlite import SqliteHook
from latencytrace.agent.hooks.threads import ThreadsHook
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.runtime_gaps import LIBRARY
from latencytrace.model import Stage, semconv
from latencytrace.model.packed import unpack_named
from tests.support.agent.hooked import Spans, attribute_text, hooked, in_request, intervals_of
from tests.support.agent.waiting_requests import serve, served

METADATA = sqlalchemy.MetaData()
PASSAGES = sqlalchemy.Table(
    "passages",
    METADATA,
    sqlalchemy.Column("key", sqlalchemy.Integer, primary_key=True),
    sqlalchemy.Column("text", sqlalchemy.String),
)


class Passage:
    """A row of that table."""

    def __init__(self, text: str) -> None:
        self.text = text


registry().map_imperatively(Passage, PASSAGES)


@pytest.fixture
def engine() -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine("sqlite://", poolclass=StaticPool)
    METADATA.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def spans(engine: sqlalchemy.Engine) -> Iterator[Spans]:
    """Of an engine that was there before."""
    assert engine.dialect.name == "sqlite"
    with hooked(SqlalchemyHook) as spans:
        yield spans


def _named(spans: Spans, name: str) -> list[RecordedSpan]:
    return [span for span in spans.all if span.name == name]


def test_statements_of_a_session_are_spans_of_the_database(
    spans: Spans, engine: sqlalchemy.Engine
) -> None:
    def work() -> None:
        with Session(engine) as session:
            session.add_all([Passage(text="a secret"), Passage(text="another")])
            session.commit()
            session.scalars(sqlalchemy.select(Passage).where(PASSAGES.c.text == "a secret")).all()

    in_request(spans, work)

    (select,), request = _named(spans, "SELECT passages"), spans.all[-1]
    assert (select.name, select.parent_id) == ("SELECT passages", request.span_id)
    assert dict(select.attributes) == {
        semconv.STAGE: Stage.DATABASE,
        semconv.DB_SYSTEM_NAME: "sqlite",
        semconv.DB_OPERATION_NAME: "SELECT",
        semconv.DB_COLLECTION_NAME: "passages",
    }
    assert spans.names[0] == "INSERT passages"
    assert "secret" not in attribute_text(spans)


def test_an_async_engine_is_timed_while_it_is_awaited(tmp_path: Path) -> None:
    async def work() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/passages.db")
        async with engine.connect() as connection:
            rows = await connection.execute(sqlalchemy.text("SELECT key FROM (SELECT 1 AS key)"))
            assert rows.all() == [(1,)]
        await engine.dispose()

    with hooked(SqlalchemyHook) as spans:
        in_request(spans, lambda: asyncio.run(work()))

    select, request = _named(spans, "SELECT")[-1], spans.all[-1]
    assert (select.name, select.parent_id) == ("SELECT", request.span_id)
    assert select.attributes[semconv.DB_SYSTEM_NAME] == "sqlite"


def test_a_statement_that_a_driver_of_a_timed_library_executes_is_one_span(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/passages.db")
        async with engine.connect() as connection:
            await connection.execute(sqlalchemy.text("SELECT 1 AS key"))
        await engine.dispose()

    with hooked(ThreadsHook, SqliteHook, SqlalchemyHook) as spans:
        in_request(spans, lambda: asyncio.run(work()))

    request = spans.all[-1]
    selects = [span for span in spans.all if span.name == "SELECT"]
    assert [span.parent_id for span in selects] == [request.span_id]


def test_many_rows_at_once_are_one_span(spans: Spans, engine: sqlalchemy.Engine) -> None:
    def work() -> None:
        with engine.begin() as connection:
            insert = sqlalchemy.insert(PASSAGES)
            connection.execute(insert, [{"text": "one"}, {"text": "two"}])

    in_request(spans, work)

    assert spans.names == ["INSERT passages", "COMMIT", "ROLLBACK", "request"]


def test_the_ends_of_transactions_are_spans_of_the_database(
    spans: Spans, engine: sqlalchemy.Engine
) -> None:
    def work() -> None:
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text("SELECT 1"))
            connection.commit()
            connection.execute(sqlalchemy.text("SELECT 2"))
            connection.rollback()

    in_request(spans, work)

    assert spans.names[:4] == ["SELECT", "COMMIT", "SELECT", "ROLLBACK"]
    commit, request = spans.all[1], spans.all[-1]
    assert commit.parent_id == request.span_id
    assert dict(commit.attributes) == {
        semconv.STAGE: Stage.DATABASE,
        semconv.DB_SYSTEM_NAME: "sqlite",
        semconv.DB_OPERATION_NAME: "COMMIT",
    }


def test_a_search_by_vectors_is_retrieving(spans: Spans, engine: sqlalchemy.Engine) -> None:
    statement = sqlalchemy.text("SELECT key FROM passages ORDER BY text <=> :query LIMIT 3")

    def work() -> None:
        with engine.connect() as connection, pytest.raises(sqlalchemy.exc.OperationalError):
            connection.execute(statement, {"query": "[1, 2]"})  # SQLite has no such operator

    in_request(spans, work)

    (search,) = spans.of(Stage.RETRIEVE)
    assert search.name == "SELECT passages"
    assert search.attributes[semconv.ERROR_TYPE] == "OperationalError"


def test_a_statement_outside_of_any_request_is_none_of_its_own(
    spans: Spans, engine: sqlalchemy.Engine
) -> None:
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("SELECT 1"))

    assert spans.all == []


def test_the_driver_beneath_adds_no_spans() -> None:
    with hooked(SqliteHook, SqlalchemyHook) as spans:
        engine = sqlalchemy.create_engine("sqlite://", poolclass=StaticPool)

        def work() -> None:
            with engine.connect() as connection:
                connection.execute(sqlalchemy.text("SELECT 1"))

        in_request(spans, work)
        engine.dispose()

    assert spans.names.count("SELECT") == 1


def test_statements_beyond_those_that_have_a_span_keep_their_time(
    spans: Spans, engine: sqlalchemy.Engine
) -> None:
    with served(spans), engine.connect() as connection:
        for _ in range(300):
            connection.execute(sqlalchemy.text("SELECT 1")).one()

    (request,) = spans.of(None)
    kept = [each for each in intervals_of(request) if each.stage is Stage.DATABASE]
    assert len(spans.of(Stage.DATABASE)) == 256 + 1  # and the end of the transaction
    assert len(kept) == 44
    assert all(each.end_ns > each.start_ns for each in kept)


def _of_library(request: RecordedSpan) -> list[tuple[int, int]]:
    """The gaps in which the library was at work, in monotonic time."""
    packed = str(request.attributes.get(semconv.RUNTIME_GAPS, ""))
    found = unpack_named(packed, request.started_ns)
    return [(start_ns, end_ns) for name, start_ns, end_ns in found if name == LIBRARY]


def test_what_a_session_does_around_its_statements_is_the_librarys(
    spans: Spans, engine: sqlalchemy.Engine
) -> None:
    within: list[int] = []
    with served(spans), Session(engine) as session:
        sqlalchemy.event.listen(session, "do_orm_execute", lambda _: within.append(monotonic_ns()))
        session.get(Passage, 1)
        between_ns = monotonic_ns()
        session.scalars(sqlalchemy.select(Passage)).all()

    (request,) = spans.of(None)
    (got, *rest) = _of_library(request)
    assert got[0] < within[0] < got[1] < between_ns < rest[0][0] < within[1] < rest[0][1]
    selects = _named(spans, "SELECT passages")
    assert got[0] < selects[0].started_ns < selects[0].ended_ns < got[1]
    assert len(rest) == 3  # the statement, its rows, the end of the session


def test_an_async_session_likewise(tmp_path: Path) -> None:
    async def work(spans: Spans) -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/passages.db")
        async with engine.begin() as connection:
            await connection.run_sync(METADATA.create_all)

        async def endpoint() -> None:
            async with AsyncSession(engine) as session:
                await session.get(Passage, 1)

        await serve(spans, endpoint)
        await engine.dispose()

    with hooked(SqlalchemyHook) as spans:
        asyncio.run(work(spans))

    (request,) = spans.of(None)
    select = _named(spans, "SELECT passages")[-1]
    got, _ = _of_library(request)  # and the end of the session
    assert got[0] < select.started_ns < select.ended_ns < got[1]


def test_a_call_that_fails_ends_the_librarys_work_too(
    spans: Spans, engine: sqlalchemy.Engine
) -> None:
    with served(spans), engine.connect() as connection:
        with pytest.raises(sqlalchemy.exc.OperationalError):
            connection.execute(sqlalchemy.text("SELECT nothing"))
        connection.execute(sqlalchemy.text("SELECT 1"))

    (request,) = spans.of(None)
    assert len(_of_library(request)) == 3  # and the end of the connection
