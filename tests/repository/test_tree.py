"""The checkout holds sources, and nothing that a program wrote."""

import subprocess
from pathlib import Path

import pytest

from tests.support.repository.tree import ROOT, out_of_place, strangers, tracked


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_only_sources_are_committed() -> None:
    files = tracked()

    assert "pyproject.toml" in files
    assert out_of_place(files) == []


@pytest.mark.parametrize(
    "written",
    [
        "chroma.log",
        "dump.rdb",
        "data.json",
        "chroma/chroma.sqlite3",
        "tests/agent/server.log",
        "tests/service/spans.parquet",
    ],
)
def test_what_a_program_wrote_into_the_checkout_is_found(tmp_path: Path, written: str) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text(".venv/\n")
    for name in (written, ".venv/pip.log", "latencytrace/new_idea.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a line")

    assert out_of_place(strangers(tmp_path)) == [written]


def test_a_folder_that_is_no_checkout_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "chroma.log").write_text("a line")

    assert strangers(tmp_path) == frozenset()
