"""Libraries that `doctor` names for want of a hook: none that has one."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.cli.doctor_checks.unhooked import UNHOOKED
from latencytrace.plugins import HOOKS, plugins


def test_no_library_that_a_hook_times_is_named_as_one_without() -> None:
    hooks: list[type[Hook]] = [plugin.load() for plugin in plugins(HOOKS)]
    hooked = {each.partition(" ")[0].lower() for hook in hooks for each in hook.requires}

    assert len(hooked) > 50
    assert hooked & set(UNHOOKED) == set()


def test_every_stage_that_is_proposed_explains_time() -> None:
    assert all(stage.explains for stage in UNHOOKED.values())
