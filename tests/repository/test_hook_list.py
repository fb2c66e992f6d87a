"""The list of what our hooks wait for: what the hooks themselves say."""

from latencytrace.agent.timing.hook_list import LISTED
from latencytrace.plugins import Plugin
from tests.support.agent.hook_list import hooks_of_ours, listed
from tests.support.over_all import over_all

MOST_MISSING = 0.2  # of our hooks: one that is not listed works, and is loaded at the start


@over_all("value", LISTED)
def test_a_hook_is_listed_as_it_is(value: str) -> None:
    assert LISTED[value] == listed(Plugin(value, value)), "run `make hook-list`"


def test_the_list_names_installed_hooks_and_most_of_them() -> None:
    ours = {plugin.value for plugin in hooks_of_ours()}

    assert set(LISTED) - ours == set(), "run `make hook-list`"
    assert len(ours - set(LISTED)) <= MOST_MISSING * len(ours), "run `make hook-list`"
