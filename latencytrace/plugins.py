"""Finds plugins by group and name: the one door, ours use it too."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, distribution, entry_points

from latencytrace.errors import PluginError

HOOKS = "latencytrace.hook"
GPU_READERS = "latencytrace.gpu_reader"
SINKS = "latencytrace.sink"
STORES = "latencytrace.store"


def plugins(group: str) -> Iterator[EntryPoint]:
    """Every plugin of a group, in order of name, not loaded yet."""
    yield from sorted(entry_points(group=group), key=lambda plugin: plugin.name)


def installed_version(name: str) -> str:
    """Return the version of a distribution, as its folder is called: its metadata is long.

    Raises:
        PackageNotFoundError: It is not installed.
    """
    found = distribution(name)
    folder = str(getattr(getattr(found, "_path", None), "name", ""))
    _, separator, version = folder.removesuffix(".dist-info").rpartition("-")
    return version if separator and folder.endswith(".dist-info") else found.version


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
