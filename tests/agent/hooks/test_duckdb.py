"""The hook of DuckDB, in the process."""

from collections.abc import Iterator
from typing import Any

import pytest

from latencytrace.agent.hooks.duckdb import DuckdbHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request

duckdb = pytest.importorskip("duckdb")
HOOKS = (DuckdbHook,)


@pytest.fixture
def connection(spans: Spans) -> Iterator[Any]:
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE passages (text VARCHAR, vector FLOAT[2])")
    connection.executemany(
        "INSERT INTO passages VALUES (?, ?)", [["a secret", [1.0, 0.0]], ["one", [0.0, 1.0]]]
    )
    assert spans.all == []  # outside of any request
    yield connection
    connection.close()


def test_statements_and_searches_by_vectors_are_spans_within_a_request(
    spans: Spans,
    connection: Any,
) -> None:
    nearest = "SELECT text FROM passages ORDER BY array_distance(vector, [1.0, 0.0]::FLOAT[2])"
    found: list[object] = []

    def work() -> None:
        found.extend(connection.execute("SELECT text FROM passages WHERE text = 'one'").fetchall())
        found.extend(connection.execute(nearest).fetchall())

    in_request(spans, work)

    assert found == [("one",), ("a secret",), ("one",)]
    assert spans.names == ["SELECT passages", "SELECT passages", "request"]
    assert spans.stages[:2] == [Stage.DATABASE, Stage.RETRIEVE]
    assert spans.all[0].attributes[semconv.DB_SYSTEM_NAME] == "duckdb"
    assert "secret" not in attribute_text(spans)


def test_a_relation_is_timed_where_its_rows_are_asked_for(
    spans: Spans,
    connection: Any,
) -> None:
    in_request(spans, lambda: connection.sql("SELECT count(*) FROM passages").fetchall())

    assert (spans.names, spans.stages[0]) == (["fetchall", "request"], Stage.DATABASE)


def test_what_a_statement_raises_passes_through_and_fails_its_span(
    spans: Spans,
    connection: Any,
) -> None:
    def work() -> None:
        with pytest.raises(duckdb.CatalogException):
            connection.execute("SELECT * FROM nowhere")

    in_request(spans, work)

    assert spans.all[0].attributes[semconv.ERROR_TYPE] == "CatalogException"
