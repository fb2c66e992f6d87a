"""Rules of the code that no linter knows."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "latencytrace"
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.py"))
MOST_LINES = 400  # "400 is a bug"


@pytest.mark.parametrize("module", MODULES)
def test_no_file_is_too_long_to_be_read_once(module: str) -> None:
    assert len((ROOT / module).read_text().splitlines()) <= MOST_LINES
