"""The hooks that are installed, ours and others': all come through the same door."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from latencytrace.agent.guard import OnFault, guarded, logger
from latencytrace.agent.native import read_file
from latencytrace.agent.timing.hook import Hook, HookOptions, ListedHook
from latencytrace.plugins import HOOKS, Plugin, plugins

OURS: Final = "latencytrace.agent.hooks."  # begins the entry points of our hooks
# Written by `make hook-list` from the hooks themselves; a test compares them.
HOOK_LIST: Final = Path(__file__).with_name("hook_list.txt")


def listed_hooks(path: Path) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Requirements and patched modules of hooks, by entry point, so that a start loads none.

    A hook that is not listed, such as another package's, is loaded when the agent starts; so are
    all without the file, which a program that was frozen may lack.
    """
    try:
        lines = read_file(path).decode().splitlines()
    except OSError:
        return {}
    rows = (line.split("; ") for line in lines)
    return {
        OURS + name: (tuple(filter(None, requires.split(", "))), tuple(modules.split()))
        for name, requires, modules in rows
    }


def installed_hooks(
    names: Sequence[str] | None, on_fault: OnFault, options: HookOptions | None = None
) -> list[tuple[str, type[Hook] | ListedHook]]:
    """The hooks to apply; one that cannot be loaded is logged and left out.

    Args:
        names: Names of the wanted hooks; None: all.
        options: Of hooks; some have no patch without any.
    """
    found: list[tuple[str, type[Hook] | ListedHook]] = []
    installed = {plugin.name: plugin for plugin in plugins(HOOKS)}
    hooks = listed_hooks(HOOK_LIST)
    has_options = options is not None and options != HookOptions()
    for name in installed if names is None else names:
        if name not in installed:
            logger.warning("no hook is called %r; installed: %s", name, ", ".join(installed))
            continue
        plugin = installed[name]
        listed = hooks.get(plugin.value)
        if listed is not None and (listed[1] or not has_options):
            found.append((name, ListedHook(plugin, *listed)))
            continue
        loaded = _loaded(plugin, on_fault)
        if loaded is not None:
            found.append((name, loaded))
    return found


def _loaded(plugin: Plugin, on_fault: OnFault) -> type[Hook] | None:
    loaded: object = None
    with guarded(f"loading the hook {plugin.name!r}", on_fault):
        loaded = plugin.load()
    if isinstance(loaded, type) and issubclass(loaded, Hook):
        return loaded
    if loaded is not None:
        logger.warning(
            "hook %r is no subclass of latencytrace.agent.timing.hook.Hook", plugin.name
        )
    return None
