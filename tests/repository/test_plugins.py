"""Plural folders and entry points: each file is a plugin, and each plugin is a file."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "latencytrace.gpu_reader": "agent/gpu_readers",
    "latencytrace.hook": "agent/hooks",
    "latencytrace.sink": "service/sinks",
    "latencytrace.store": "service/stores",
}


def entry_points() -> dict[str, dict[str, str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = project["entry-points"]
    assert isinstance(groups, dict)
    return groups


def files(folder: str) -> set[str]:
    found = (ROOT / "latencytrace" / folder).glob("*.py")
    return {path.stem for path in found if path.stem != "__init__"}


def test_every_group_has_its_folder() -> None:
    assert set(entry_points()) == set(FOLDERS)


@pytest.mark.parametrize("group", FOLDERS)
def test_every_file_in_a_plural_folder_has_an_entry_point_and_the_reverse(group: str) -> None:
    folder = f"latencytrace.{FOLDERS[group].replace('/', '.')}"
    modules = {value.partition(":")[0] for value in entry_points()[group].values()}

    assert modules == {f"{folder}.{stem}" for stem in files(FOLDERS[group])}


@pytest.mark.parametrize("group", FOLDERS)
def test_every_plugin_is_called_after_its_file(group: str) -> None:
    names = {
        name: value.partition(":")[0].rpartition(".")[2]
        for name, value in entry_points()[group].items()
    }

    assert names == {name: name for name in names}


@pytest.mark.parametrize("stem", sorted(files("agent/hooks")))
def test_every_hook_has_a_test_with_its_real_library(stem: str) -> None:
    assert (ROOT / "tests/agent/hooks" / f"test_{stem}.py").exists()


@pytest.mark.parametrize("stem", sorted(files("agent/gpu_readers")))
def test_every_gpu_reader_has_a_test_with_its_real_library(stem: str) -> None:
    assert (ROOT / "tests/agent/gpu_readers" / f"test_{stem}.py").exists()
