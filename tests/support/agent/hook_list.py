"""Writes the list of what our hooks wait for, so that a start need not load them."""

from latencytrace.agent.timing.discovery import HOOK_LIST, OURS
from latencytrace.agent.timing.hook import Hook, HookOptions
from latencytrace.plugins import HOOKS, Plugin, plugins


def listed(plugin: Plugin) -> str:
    """The line of a hook: of one that asks settings, what it is without any."""
    hook = plugin.load()
    assert isinstance(hook, type)
    assert issubclass(hook, Hook)
    modules = dict.fromkeys(patch.module for patch in hook.table(HookOptions()))
    name = plugin.value.removeprefix(OURS)
    return f"{name}; {', '.join(hook.requires)}; {' '.join(modules)}"


def hooks_of_ours() -> list[Plugin]:
    """Every hook that this package brings."""
    return [plugin for plugin in plugins(HOOKS) if plugin.value.startswith(OURS)]


if __name__ == "__main__":
    HOOK_LIST.write_text("".join(f"{line}\n" for line in sorted(map(listed, hooks_of_ours()))))
