"""The list of what our hooks wait for: what the hooks themselves say."""

import sys
from pathlib import Path

from latencytrace.agent.timing.discovery import HOOK_LIST, OURS, listed_hooks
from latencytrace.plugins import Plugin
from tests.support.agent.hook_list import hooks_of_ours, listed
from tests.support.over_all import over_all

MOST_MISSING = 0.2  # of our hooks: one that is not listed works, and is loaded at the start
LINES = HOOK_LIST.read_text().splitlines()


@over_all("line", LINES)
def test_a_hook_is_listed_as_it_is(line: str) -> None:
    name = line.partition(";")[0]
    found = listed(Plugin(name, OURS + name))
    if sys.version_info >= (3, 12):  # which may need fewer modules than the list's own Python
        found += "".join(f" {one}" for one in line.split() if one not in found.split())

    assert line == found, "run `make hook-list`"


def test_the_list_names_installed_hooks_and_most_of_them() -> None:
    ours = {plugin.value for plugin in hooks_of_ours()}
    names = set(listed_hooks(HOOK_LIST))

    assert len(names) == len(LINES)
    assert names - ours == set(), "run `make hook-list`"
    assert len(ours - names) <= MOST_MISSING * len(ours), "run `make hook-list`"


def test_without_the_list_hooks_are_loaded_at_the_start(tmp_path: Path) -> None:
    assert listed_hooks(tmp_path / "none.txt") == {}
