"""Finds plugins by group and name: the one door, ours use it too.

Speed is the point here, for a traced program finds its hooks when it starts: what is installed is
read off the folders of `sys.path`, a tenth of what `importlib.metadata` takes to load and to look.
It is asked where packages may lie elsewhere, and is the test's oracle (`bench_start.py`).
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any, Final, NamedTuple

from latencytrace.errors import PluginError

HOOKS = "latencytrace.hook"
GPU_READERS = "latencytrace.gpu_reader"
SINKS = "latencytrace.sink"
STORES = "latencytrace.store"

_METADATA: Final = ".dist-info"
_OLD_METADATA: Final = ".egg-info"
_EGG: Final = ".egg"  # a package with its metadata in it, in a folder or an archive


class Plugin(NamedTuple):
    """A plugin that is installed, not loaded yet."""

    name: str
    value: str  # `module:attribute`

    def load(self) -> Any:
        """Import it."""
        module, _, attribute = self.value.partition("[")[0].partition(":")
        found: Any = import_module(module.strip())
        for part in attribute.strip().split(".") if attribute.strip() else ():
            found = getattr(found, part)
        return found


def plugins(group: str) -> Iterator[Plugin]:
    """Every plugin of a group, in order of name, not loaded yet."""
    folders = _folders()
    if folders is None:
        from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import

        found = (Plugin(plugin.name, plugin.value) for plugin in entry_points(group=group))
    else:
        found = (plugin for folder in folders.values() for plugin in _declared(folder, group))
    yield from sorted(found, key=lambda plugin: plugin.name)


def installed_version(name: str) -> str:
    """Return the version of a distribution, as its folder is called: its metadata is long.

    Raises:
        ModuleNotFoundError: The distribution is not installed.
    """
    folders = _folders()
    folder = "" if folders is None else folders.get(_normal(name))
    if folder is None:
        raise ModuleNotFoundError(f"{name} is not installed", name=name)
    if folder.endswith(_METADATA):
        return os.path.basename(folder).removesuffix(_METADATA).partition("-")[2]  # noqa: PTH119 - pathlib is slow to import
    from importlib.metadata import distribution  # noqa: PLC0415 - slow to import

    return distribution(name).version


def load_plugin(group: str, name: str) -> object:
    """Load one plugin by its name.

    Raises:
        PluginError: No plugin of that name is installed.
    """
    for plugin in plugins(group):
        if plugin.name == name:
            loaded: object = plugin.load()
            return loaded
    known = ", ".join(plugin.name for plugin in plugins(group)) or "none"
    raise PluginError(f"no plugin {name!r} in group {group!r}; installed: {known}")


def _folders() -> Mapping[str, str] | None:
    """Return where each distribution's metadata lie, by its name; None: not in folders alone."""
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in others):
        return None
    found: dict[str, str] = {}
    for entry in sys.path:
        folder = entry or "."
        try:
            names = _metadata_in(folder, os.stat(folder).st_mtime_ns)  # noqa: PTH116
        except NotADirectoryError:  # an archive
            return None
        except OSError:
            continue
        for name in names:
            if name.endswith(_EGG):
                return None
            called = _normal(name.rpartition(".")[0].partition("-")[0])
            found.setdefault(called, f"{folder}/{name}")
    return found


@lru_cache(maxsize=64)
def _metadata_in(folder: str, _changed_ns: int) -> Iterable[str]:
    kinds = (_METADATA, _OLD_METADATA, _EGG)
    return tuple(name for name in os.listdir(folder) if name.endswith(kinds))  # noqa: PTH208


def _normal(name: str) -> str:
    """Return a distribution's name in the one form that all its spellings have."""
    parts = name.lower().replace("-", "_").replace(".", "_").split("_")
    return "_".join(filter(None, parts))


def _declared(folder: str, group: str) -> Iterator[Plugin]:
    try:
        with open(f"{folder}/entry_points.txt", encoding="utf-8") as file:  # noqa: PTH123
            text = file.read()
    except OSError:
        return
    if group not in text:
        return
    section = ""
    for line in map(str.strip, text.splitlines()):
        name, separator, value = line.partition("=")
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == group and separator and not line.startswith(("#", ";")):
            yield Plugin(name.strip(), value.strip())
