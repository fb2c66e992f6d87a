"""Writes the list of what our hooks wait for, so that a start need not load them."""

from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

from latencytrace.agent.timing import hook_list
from latencytrace.agent.timing.hook import Hook, HookOptions
from latencytrace.plugins import HOOKS, Plugin, plugins

Listed = tuple[tuple[str, ...], tuple[str, ...]]  # what it requires, and the modules
OURS = "latencytrace."
WIDTH = 99
HEAD = '''"""Modules our hooks wait for, so that none is loaded before the program needs it.

Written by `make hook-list` from the hooks themselves; a test compares them. One that is not
listed, as those of other packages, is loaded when the agent starts.
"""

from typing import Final

# By entry point: what it requires, and the modules that it patches.
# fmt: off
LISTED: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
'''


def listed(plugin: Plugin) -> Listed:
    """Return what is listed of a hook: of one that asks settings, what it is without any."""
    hook = plugin.load()
    assert isinstance(hook, type)
    assert issubclass(hook, Hook)
    patches = hook.table(HookOptions())
    return hook.requires, tuple(dict.fromkeys(patch.module for patch in patches))


def hooks_of_ours() -> list[Plugin]:
    """Every hook that this package brings."""
    return [plugin for plugin in plugins(HOOKS) if plugin.value.startswith(OURS)]


def lines() -> Iterator[str]:
    """The file's lines behind its head."""
    for plugin in sorted(hooks_of_ours(), key=lambda plugin: plugin.value):
        entry = f'"{plugin.value}": {listed(plugin)!r},'.replace("'", '"').replace(" >= ", "_>=_")
        wrapped = wrap(
            entry,
            WIDTH,
            initial_indent="    ",
            subsequent_indent="        ",
            break_on_hyphens=False,
        )
        yield from (line.replace("_>=_", " >= ") for line in wrapped)
    yield "}"
    yield "# fmt: on"


if __name__ == "__main__":
    text = HEAD + "\n".join(lines()) + "\n"
    Path(hook_list.__file__).write_text(text)
