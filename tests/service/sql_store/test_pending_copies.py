"""Traces that are noted outlive the process."""

from pathlib import Path

import pytest

from latencytrace.errors import StoreError
from latencytrace.service.sql_store.pending_copies import NotedTraces

ONE, TWO, THREE = ("1" * 32, "2" * 32, "3" * 32)


def test_the_next_process_knows_what_was_noted(tmp_path: Path) -> None:
    traces = NotedTraces(tmp_path / "noted")
    traces.add([ONE, TWO])
    traces.add([TWO, THREE])

    assert traces.ids == {ONE, TWO, THREE}
    assert NotedTraces(tmp_path / "noted").ids == {ONE, TWO, THREE}


def test_what_is_forgotten_stays_forgotten(tmp_path: Path) -> None:
    traces = NotedTraces(tmp_path / "noted")
    traces.clear()
    traces.add([ONE])
    traces.clear()
    traces.add([TWO])

    assert traces.ids == {TWO}
    assert NotedTraces(tmp_path / "noted").ids == {TWO}


@pytest.mark.parametrize("torn", [b"222", b"\xff\xfe\0"], ids=["half a line", "no text"])
def test_a_torn_line_harms_no_other(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "noted"
    NotedTraces(path).add([ONE])
    path.write_bytes(path.read_bytes() + torn)
    NotedTraces(path).add([THREE])

    assert NotedTraces(path).ids == {ONE, THREE}


def test_a_file_that_cannot_be_used_is_an_error_of_the_store(tmp_path: Path) -> None:
    traces = NotedTraces(tmp_path / "noted")
    (tmp_path / "noted").mkdir()

    with pytest.raises(StoreError, match="no regular file"):
        traces.add([ONE])
    with pytest.raises(StoreError, match="no regular file"):
        NotedTraces(tmp_path / "noted")
    assert traces.ids == set()
