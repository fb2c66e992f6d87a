"""The hook of asyncpg, against PostgreSQL itself."""

import asyncio
from urllib.parse import urlsplit

import asyncpg
import pytest

from latencytrace.agent.hooks.postgres import AsyncpgHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import attribute_text, hooked, in_request


def test_statements_of_every_kind_are_one_span_each(postgres: str) -> None:
    parts = dict(part.split("=", 1) for part in postgres.split()) if "=" in postgres else {}
    where = {
        "host": parts.get("host") or urlsplit(postgres).hostname,
        "port": int(parts.get("port") or urlsplit(postgres).port or 5432),
        "user": parts.get("user") or urlsplit(postgres).username,
        "database": parts.get("dbname") or urlsplit(postgres).path[1:] or None,
    }

    async def work() -> None:
        connection = await asyncpg.connect(**where)
        await connection.execute("CREATE TEMP TABLE passages (text TEXT)")
        await connection.execute("INSERT INTO passages VALUES ($1)", "a secret")
        await connection.executemany("INSERT INTO passages VALUES ($1)", [("one",), ("two",)])
        assert await connection.fetchval("SELECT count(*) FROM passages") == 3
        prepared = await connection.prepare("SELECT text FROM passages WHERE text = $1")
        assert [row["text"] for row in await prepared.fetch("one")] == ["one"]
        with pytest.raises(asyncpg.PostgresError):  # it has no such operator for texts
            await connection.fetch("SELECT text FROM passages ORDER BY text <-> $1", "a secret")
        await connection.close()

    with hooked(AsyncpgHook) as spans:
        in_request(spans, lambda: asyncio.run(work()))

    own = [
        span for span in spans.all if span.attributes.get(semconv.DB_COLLECTION_NAME) == "passages"
    ]
    assert [span.name for span in own] == [
        "CREATE passages",
        "INSERT passages",
        "INSERT passages",
        "SELECT passages",
        "SELECT passages",
        "SELECT passages",
    ]
    assert [span.attributes[semconv.STAGE] for span in own] == [Stage.DATABASE] * 5 + [
        Stage.RETRIEVE
    ]
    assert {span.parent_id for span in own} == {spans.all[-1].span_id}
    assert "secret" not in attribute_text(spans)
