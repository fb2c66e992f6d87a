"""The hook of `lancedb`, with tables in a folder of the test's own."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from latencytrace.agent.hooks.threads import ThreadsHook
from latencytrace.agent.hooks.vector_databases import LancedbHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked, in_request
from tests.support.later import Later

lancedb, index = Later("lancedb"), Later("lancedb.index")
ROWS: list[dict[str, Any]] = [
    {"id": number, "vector": [1.0, float(number)], "text": f"a secret {number}"}
    for number in range(5)
]


@pytest.fixture
def table(tmp_path: Path) -> Any:
    return lancedb.connect(tmp_path).create_table("passages", ROWS)


@pytest.fixture
def spans(table: Any) -> Iterator[Spans]:
    """Those made once the table is filled."""
    assert table.count_rows() == len(ROWS)
    with hooked(LancedbHook) as spans:
        yield spans


@pytest.mark.parametrize("form", ["to_list", "to_arrow", "to_pandas"])
def test_a_search_is_one_span_of_retrieving(spans: Spans, table: Any, form: str) -> None:
    found = getattr(table.search([1.0, 0.0]).limit(3), form)()

    assert len(found) == 3
    assert spans.only.name == "search"
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: "lancedb",
        semconv.DB_COLLECTION_NAME: "passages",
        semconv.GEN_AI_RETRIEVAL_TOP_K: 3,
    }


def test_a_search_that_is_read_in_batches_is_one_span(spans: Spans, table: Any) -> None:
    batches = table.search([1.0, 0.0]).limit(3).to_batches()

    assert sum(len(batch) for batch in batches) == 3
    assert spans.names == ["search"]


def test_reading_and_writing_are_distinguished(spans: Spans, table: Any) -> None:
    table.search().where("id > 2").to_list()
    table.add(ROWS[:2])
    table.update(where="id = 1", values={"text": "another secret"})
    table.merge_insert("id").when_not_matched_insert_all().execute(ROWS[3:])
    table.delete("id = 1")

    assert spans.names == ["search", "add", "update", "database", "delete"]
    assert spans.stages == [Stage.RETRIEVE, *[Stage.DATABASE] * 4]
    assert spans.all[1].attributes[semconv.DB_OPERATION_BATCH_SIZE] == 2
    assert "secret" not in attribute_text(spans)


def test_both_halves_of_a_hybrid_search_are_one_span(table: Any) -> None:
    table.create_index("text", config=index.FTS())
    with hooked(LancedbHook, ThreadsHook) as spans:
        search = table.search(query_type="hybrid").vector([1.0, 0.0]).text("secret").limit(2)
        in_request(spans, search.to_list)

    assert len(spans.of(Stage.RETRIEVE)) == 1


def test_errors_of_the_library_pass_through(spans: Spans, table: Any) -> None:
    with pytest.raises((ValueError, RuntimeError), match="no_such_column"):
        table.search([1.0, 0.0]).where("no_such_column = 1").to_list()

    assert spans.only.status.status_code is StatusCode.ERROR


def test_the_async_table_is_timed_while_it_is_awaited(spans: Spans, tmp_path: Path) -> None:
    async def search() -> int:
        connection = await lancedb.connect_async(tmp_path)
        table = await connection.open_table("passages")
        await table.add(ROWS[:1])
        return len(await table.vector_search([1.0, 0.0]).limit(2).to_list())

    assert asyncio.run(search()) == 2
    assert spans.names == ["add", "search"]
    assert spans.stages == [Stage.DATABASE, Stage.RETRIEVE]
