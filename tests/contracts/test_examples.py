"""What the example plugins of the documentation do beyond their contracts."""

import os
from pathlib import Path
from uuid import uuid4

import pytest

from latencytrace.errors import StoreInUseError
from latencytrace_examples.sqlite_store import SqliteStore
from tests.contracts.conftest import PROJECT
from tests.support.builders.spans.otlp_messages import columns, one_span, otlp
from tests.support.servers.running_service import RunningService


def test_a_service_serves_from_the_example_store(examples: Path, tmp_path: Path) -> None:
    path = {"PYTHONPATH": f"{examples}{os.pathsep}{PROJECT.parent}"}
    span = one_span(uuid4().hex)
    with RunningService(tmp_path / "data", "--store", "sqlite", env=path) as service:
        service.post(otlp(span))
        found = service.request(span.trace_id)
        breakdown = service.ask("/breakdown?service=rag&since=9999d")

    assert found["ledger"] == {"unattributed": 1000}
    assert breakdown["requests"] == 1
    assert (tmp_path / "data" / "latencytrace.sqlite3").exists()
    assert not (tmp_path / "data" / "clickhouse").exists()


def test_the_example_stores_folder_has_one_owner_and_keeps_what_it_was_given(
    tmp_path: Path,
) -> None:
    span = one_span()
    store = SqliteStore.open(tmp_path)
    store.insert([columns(otlp(span))])
    with pytest.raises(StoreInUseError, match="--data"):
        SqliteStore.open(tmp_path)
    store.close()

    again = SqliteStore.open(tmp_path)
    kept = again.arrived([span.trace_id])
    again.close()

    assert kept == {span.trace_id: (span,)}
