"""The hooks that are installed, ours and others': all come through the same door."""

from collections.abc import Sequence

from latencytrace.agent.guard import OnFault, guarded, logger
from latencytrace.agent.timing.hook import Hook
from latencytrace.plugins import HOOKS, plugins


def installed_hooks(
    names: Sequence[str] | None, on_fault: OnFault
) -> list[tuple[str, type[Hook]]]:
    """The hooks to apply; one that cannot be loaded is logged and left out."""
    found: list[tuple[str, type[Hook]]] = []
    installed = {plugin.name: plugin for plugin in plugins(HOOKS)}
    for name in installed if names is None else names:
        if name not in installed:
            logger.warning("no hook is called %r; installed: %s", name, ", ".join(installed))
            continue
        loaded: object = None
        with guarded(f"loading the hook {name!r}", on_fault):
            loaded = installed[name].load()
        if loaded is None:
            continue
        if isinstance(loaded, type) and issubclass(loaded, Hook):
            found.append((name, loaded))
        else:
            logger.warning("hook %r is no subclass of latencytrace.agent.timing.hook.Hook", name)
    return found
