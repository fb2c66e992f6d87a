"""Plural folders and entry points: each file or package is a plugin, and the reverse."""

import tomllib
from pathlib import Path

import pytest

from tests.support.over_all import over_all

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "latencytrace.gpu_reader": "agent/gpu/readers",
    "latencytrace.hook": "agent/hooks",
    "latencytrace.sink": "service/sinks",
    "latencytrace.store": "service/stores",
}


def entry_points() -> dict[str, dict[str, str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = project["entry-points"]
    assert isinstance(groups, dict)
    return groups


def plugins(folder: str) -> set[str]:
    found = (ROOT / "latencytrace" / folder).iterdir()
    return {path.stem for path in found if not path.name.startswith("_")}


def test_every_group_has_its_folder() -> None:
    assert set(entry_points()) == set(FOLDERS)


@pytest.mark.parametrize("group", FOLDERS)
def test_every_file_in_a_plural_folder_has_an_entry_point_and_the_reverse(group: str) -> None:
    folder = f"latencytrace.{FOLDERS[group].replace('/', '.')}."
    modules = {value.partition(":")[0] for value in entry_points()[group].values()}
    named = {module.removeprefix(folder).partition(".")[0] for module in modules}

    assert all(module.startswith(folder) for module in modules)
    assert named == plugins(FOLDERS[group])


@over_all("name", sorted(entry_points()["latencytrace.hook"]))
def test_every_hook_has_a_test_with_its_real_library(name: str) -> None:
    assert (ROOT / "tests/agent/hooks" / f"test_{name}.py").exists()


@over_all("stem", sorted(plugins("agent/gpu/readers")))
def test_every_gpu_reader_has_a_test_with_its_real_library(stem: str) -> None:
    tests = ROOT / "tests/agent/gpu/readers"
    assert (tests / f"test_{stem}.py").exists() or any((tests / stem).glob("test_*.py"))
