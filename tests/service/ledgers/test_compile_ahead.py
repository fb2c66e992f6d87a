"""What is compiled is read back only for the functions, and the numbers, that it was made of."""

from pathlib import Path

import pytest

from latencytrace.analysis.columns import facts, reported, trees
from latencytrace.service.ledgers.compile_ahead import (
    functions_folder,
    is_compiled_ahead,
    note_compiled,
)
from latencytrace.service.otlp.compiled import loading


def test_another_place_in_the_table_of_facts_is_another_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though the file that has the function is the same: the compiler knows of no other."""
    before = functions_folder(None)
    monkeypatch.setattr(trees, "SERVER", facts.SERVER + 1)

    assert functions_folder(None) != before


def test_other_stages_are_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    before = functions_folder(None)
    monkeypatch.setattr(reported, "_GENERATING", (1, 2))

    assert functions_folder(None) != before


def test_what_was_compiled_of_others_is_not_taken_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(loading, "is_writable", lambda _: False)
    note_compiled(tmp_path)
    assert is_compiled_ahead(tmp_path)

    monkeypatch.setattr(reported, "LEAST_STREAMED", 4)

    assert not is_compiled_ahead(tmp_path)
