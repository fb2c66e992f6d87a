"""The installed packages, as read off folders: the same as `importlib.metadata` says."""

import importlib.metadata
import sys
import zipfile
from pathlib import Path

import pytest

from latencytrace.plugins import HOOKS, STORES, installed_version, plugins

GROUP = "latencytrace.under_test"
DECLARED = f"[console_scripts]\nfirst = no:one\n[{GROUP}]\n# not = this:one\nfirst = json:dumps\n"


def declared_in(folder: Path) -> None:
    """Install a distribution that brings a plugin."""
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: My.Own-Plugin\nVersion: 1.5\n")
    (folder / "entry_points.txt").write_text(DECLARED)


@pytest.mark.parametrize("group", [HOOKS, STORES, "console_scripts", "pytest11"])
def test_plugins_are_those_that_the_standard_library_finds(group: str) -> None:
    theirs = {(found.name, found.value) for found in importlib.metadata.entry_points(group=group)}

    assert {(plugin.name, plugin.value) for plugin in plugins(group)} == theirs
    assert theirs


def test_a_plugin_is_what_its_entry_point_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared_in(tmp_path / "my_own_plugin-1.5.dist-info")
    monkeypatch.syspath_prepend(tmp_path)

    (plugin,) = plugins(GROUP)

    assert (plugin.name, plugin.load()) == ("first", __import__("json").dumps)
    assert {installed_version(name) for name in ("My.Own-Plugin", "my-own_plugin")} == {"1.5"}


def test_of_two_that_are_installed_the_first_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, version in (("second", "1.4"), ("first", "1.5")):
        declared_in(tmp_path / place / f"my_own_plugin-{version}.dist-info")
        monkeypatch.syspath_prepend(tmp_path / place)

    assert [plugin.name for plugin in plugins(GROUP)] == ["first"]
    assert installed_version("my-own-plugin") == "1.5"


def test_plugins_in_an_archive_are_found_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared_in(tmp_path / "my_own_plugin-1.5.dist-info")
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        for file in (tmp_path / "my_own_plugin-1.5.dist-info").iterdir():
            archive.write(file, f"{file.parent.name}/{file.name}")
    monkeypatch.syspath_prepend(tmp_path / "archive.zip")

    assert [plugin.name for plugin in plugins(GROUP)] == ["first"]
    assert installed_version("my-own-plugin") == "1.5"


def test_plugins_of_whoever_finds_distributions_himself_are_found_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Own(importlib.metadata.Distribution):
        """One that lies nowhere."""

        def read_text(self, filename: str) -> str | None:
            """Read a file of it."""
            metadata = "Metadata-Version: 2.1\nName: own\nVersion: 7\n"
            return {"METADATA": metadata, "entry_points.txt": DECLARED}.get(filename)

        def locate_file(self, path: object) -> Path:
            """Tell where a file lies."""
            return Path(str(path))

    class Finder(importlib.metadata.DistributionFinder):
        """Finds that one."""

        def find_spec(self, *_: object) -> None:
            """Find no module."""

        def find_distributions(
            self, context: importlib.metadata.DistributionFinder.Context | None = None
        ) -> list[importlib.metadata.Distribution]:
            """Find it."""
            named = None if context is None else context.name
            return [Own()] if named in {None, "own"} else []

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])

    assert [plugin.name for plugin in plugins(GROUP)] == ["first"]
    assert installed_version("own") == "7"


def test_what_is_not_installed_is_said_as_ever() -> None:
    with pytest.raises(ModuleNotFoundError, match="no-such-thing"):
        installed_version("no-such-thing")
