"""The versions that `make demo` and `make test` install are written down, each as a version."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "constraints"
LOCKS = sorted(path.name for path in FOLDER.glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked(name: str) -> dict[str, Requirement]:
    """The requirements of a lock, by name."""
    lines = (FOLDER / name).read_text().splitlines()
    return {canonicalize_name(one.name): one for one in map(Requirement, lines)}


def asked() -> list[Requirement]:
    """What the Makefile installs for the demo, the checks and the documentation."""
    extras = PROJECT["project"]["optional-dependencies"]
    groups = PROJECT["dependency-groups"]
    texts = [
        *PROJECT["project"]["dependencies"],
        *(one for extra in ("cli", "service", "load", "demo") for one in extras[extra]),
        *(one for group in ("test", "lint", "docs") for one in groups[group]),
    ]
    return [one for one in map(Requirement, texts) if one.name != "latencytrace"]


def test_each_python_that_is_supported_has_its_lock() -> None:
    said = re.findall(
        r"Programming Language :: Python :: 3\.(\d+)", "\n".join(PROJECT["project"]["classifiers"])
    )

    assert [f"py3{minor}.txt" for minor in said] == LOCKS


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_a_version_of_everything_that_is_asked_for(name: str) -> None:
    have = {name: one.specifier for name, one in locked(name).items()}
    versions = {one: str(specifier).removeprefix("==") for one, specifier in have.items()}
    python = {"python_version": f"3.{name.removeprefix('py3').removesuffix('.txt')}"}
    wanted = [one for one in asked() if one.marker is None or one.marker.evaluate(python)]

    assert [one for one, text in versions.items() if not re.fullmatch(r"\d[\w.]*", text)] == []
    assert [str(one) for one in wanted if not allowed(one, versions)] == []


def allowed(wanted: Requirement, versions: Mapping[str, str]) -> bool:
    version = versions.get(canonicalize_name(wanted.name))
    return version is not None and wanted.specifier.contains(version, prereleases=True)
