"""Which extension modules are used."""

import os
from pathlib import Path

import pytest

from latencytrace.extensions.loading import PACKAGES, extension, is_older, missing


def test_one_older_than_its_sources_is_not_used(tmp_path: Path) -> None:
    built, source = tmp_path / "_core.so", tmp_path / "spans.c"
    built.touch()
    os.utime(built, (1 << 32, 1 << 32))  # younger than the headers that all share
    assert not is_older(built)

    source.touch()
    os.utime(built, (1, 1))

    assert is_older(built)


def test_there_is_none_where_nothing_was_compiled() -> None:
    assert extension("latencytrace.model") is None


def test_a_setting_leaves_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATENCYTRACE_COMPILED", "0")

    assert missing() == list(PACKAGES)
