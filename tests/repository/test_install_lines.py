"""What the documentation tells readers to install can be installed as it is written."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "pages").glob("*.md"))]
_LINE = re.compile(r"pip install ([^`&#\n]+)")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = frozenset(PROJECT["project"]["optional-dependencies"])
GROUPS = frozenset(PROJECT["dependency-groups"])

_CHECKOUT = re.compile(r"(\.[\w./-]*)(?:\[([\w,]+)\])?")

TOLD = [
    pytest.param(shlex.split(line), id=f"{page.stem}: {line.strip()}")
    for page in PAGES
    for line in _LINE.findall(page.read_text())
]


def test_readers_are_told_what_to_install() -> None:
    assert len(TOLD) >= 5


@pytest.mark.parametrize("told", TOLD)
def test_what_readers_are_told_to_install_is_there(told: list[str]) -> None:
    match told:
        case ["--group", group]:
            assert group in GROUPS
        case [wanted] | ["--target", _, wanted] if found := _CHECKOUT.fullmatch(wanted):
            # by a reader in this folder
            assert (ROOT / found[1] / "pyproject.toml").is_file()
            assert set((found[2] or "").split(",")) <= EXTRAS | {""}
        case _:
            requirement = Requirement(" ".join(told))
            assert requirement.name == "latencytrace"
            assert requirement.extras <= EXTRAS
