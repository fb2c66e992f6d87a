"""What every hook promises, whoever wrote it: all that are installed are held to it."""

import ast
import importlib
import importlib.metadata
import inspect
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from latencytrace.agent.timing.binding import MISSING, raw_attribute
from latencytrace.agent.timing.hook import Hook, HookOptions, Patch, Replacement
from latencytrace.agent.timing.patching import AppliedHook, HookState
from latencytrace.model import Stage
from latencytrace.plugins import HOOKS, Plugin, plugins
from tests.contracts.hooks_held import WITH
from tests.support.agent.hooked import Spans
from tests.support.servers.command_line import python

OPTIONS = HookOptions(  # what must be asked for
    log_correlation=True, torch_copies=True, torch_modules=("torch.nn:Linear",)
)


def hook_of(plugin: Plugin) -> type[Hook]:
    loaded = plugin.load()
    assert isinstance(loaded, type)
    assert issubclass(loaded, Hook)
    return loaded


PLUGINS = list(plugins(HOOKS))
HOOK_CLASSES = [pytest.param(hook_of(plugin), id=plugin.name) for plugin in PLUGINS]
every_hook = pytest.mark.parametrize("hook", HOOK_CLASSES)


def installed_of(hook: type[Hook]) -> Iterator[str]:
    """The distributions that a hook asks for and finds, with their versions."""
    for required in hook.requires:
        name = required.partition(" ")[0]
        with suppress(importlib.metadata.PackageNotFoundError):
            yield f"{name} {importlib.metadata.version(name)}"


def table(hook: type[Hook]) -> tuple[Patch | Replacement, ...]:
    return hook.table(OPTIONS)


def objects(hook: type[Hook]) -> dict[str, object]:
    """What stands in each place that a hook names, where its library has the place."""
    found = {}
    for patch in table(hook):
        try:
            with warnings.catch_warnings(action="ignore"):  # of how a library is made
                owner: object = importlib.import_module(patch.module)
        except ImportError:
            continue
        *path, name = patch.target.split(".")
        for part in path:
            owner = getattr(owner, part, MISSING)
        if owner is not MISSING and raw_attribute(owner, name) is not MISSING:
            found[f"{patch.module}.{patch.target}"] = vars(owner).get(name, MISSING)
    return found


def applied(hook: type[Hook]) -> AppliedHook:
    return AppliedHook("under test", hook, Spans().recorder, OPTIONS)


@pytest.fixture
def installed(hook: type[Hook], record_property: Callable[[str, object], None]) -> type[Hook]:
    """A hook whose library is there; the report says in which version."""
    if not objects(hook) or (hook.requires and not any(installed_of(hook))):
        pytest.skip("its library is not installed: `make test-every-hook` brings it")
    probe = applied(hook)
    probe.restore()
    if "is older than" in str(probe.status.reason):  # in an environment of another library's
        pytest.skip(f"its library is too old here: {probe.status.reason}")
    record_property(WITH, ", ".join(installed_of(hook)) or "the standard library")
    return hook


def test_there_are_hooks() -> None:
    assert len(HOOK_CLASSES) >= 7


@every_hook
def test_it_patches_everything_that_it_names(hook: type[Hook], installed: type[Hook]) -> None:
    before = objects(hook)

    active = applied(installed)
    try:
        unpatched = {place for place, now in objects(hook).items() if now is before[place]}
        status = active.status
    finally:
        active.restore()

    assert unpatched == set()
    assert status.state is HookState.APPLIED


@every_hook
def test_it_restores_the_very_same_objects(hook: type[Hook], installed: type[Hook]) -> None:
    before = objects(hook)

    for _ in range(2):
        applied(installed).restore()

    assert {place for place, now in objects(hook).items() if now is not before[place]} == set()


@every_hook
def test_its_patches_are_of_the_same_kind_as_what_they_stand_for(
    hook: type[Hook], installed: type[Hook]
) -> None:
    before = objects(hook)

    active = applied(installed)
    during = objects(hook)
    active.restore()

    wrapped = (staticmethod, classmethod, property)
    assert {place for place in before if isinstance(before[place], wrapped)} == {
        place
        for place in during
        if isinstance(during[place], wrapped) and before[place] is not None  # else it is set later
    }
    inherited = {place for place in before if before[place] is MISSING}
    assert inherited | {place for place in before if callable(before[place])} == {
        place for place in during if callable(during[place])
    }


def looks(place: object) -> tuple[object, ...]:
    """What a program sees of a function without calling it."""
    function = getattr(place, "__func__", place)
    told = [getattr(function, name, None) for name in ("__name__", "__qualname__", "__doc__")]
    try:
        signature = str(inspect.signature(function)) if callable(function) else None
    except ValueError:  # a function in C without one
        signature = None
    return *told, signature, inspect.iscoroutinefunction(function)


@every_hook
def test_its_patches_look_like_what_they_stand_for(
    hook: type[Hook], installed: type[Hook]
) -> None:
    before = objects(hook)

    active = applied(installed)
    during = objects(hook)
    active.restore()

    own = [place for place, one in before.items() if one is not MISSING and one is not None]
    assert {place: looks(during[place]) for place in own} == {
        place: looks(before[place]) for place in own
    }


@every_hook
def test_it_is_quiet_when_its_library_is_absent(
    hook: type[Hook], caplog: pytest.LogCaptureFixture
) -> None:
    absent = type("Absent", (hook,), {"requires": ("no-such-distribution >= 1.0",)})
    before = objects(hook)

    active = applied(absent)

    changed = {place for place, now in objects(hook).items() if now is not before[place]}
    active.restore()
    assert changed == set()
    assert active.status.state is HookState.ABSENT
    assert active.status.reason == "no-such-distribution is not installed"
    assert caplog.records == []


@every_hook
def test_it_leaves_a_library_alone_that_is_too_old(hook: type[Hook]) -> None:
    young = type("Young", (hook,), {"requires": ("wrapt >= 9999",)})
    before = objects(hook)

    active = applied(young)

    changed = {place for place, now in objects(hook).items() if now is not before[place]}
    active.restore()
    assert changed == set()
    assert active.status.state is HookState.REFUSED
    assert "is older than 9999" in str(active.status.reason)


@every_hook
def test_what_it_requires_can_be_read(hook: type[Hook]) -> None:
    active = applied(hook)
    active.restore()

    assert active.status.state in HookState


@every_hook
def test_its_stages_explain_something(hook: type[Hook]) -> None:
    stages = {patch.stage for patch in table(hook) if isinstance(patch, Patch)}

    assert all(stage.explains for stage in stages)
    assert Stage.UNATTRIBUTED not in stages


def test_loading_every_hook_loads_none_of_their_libraries() -> None:
    values = [plugin.value for plugin in PLUGINS]
    code = (
        "import importlib, json, sys\n"
        "before = set(sys.modules)\n"
        f"for value in {values!r}:\n"
        "    importlib.import_module(value.partition(':')[0])\n"
        "print(json.dumps(sorted(name.partition('.')[0] for name in set(sys.modules) - before)))\n"
    )

    done = python("-c", code, check=True)

    loaded = set(json.loads(done.stdout))
    libraries = {
        patch.module.partition(".")[0] for param in HOOK_CLASSES for patch in patches(param)
    }
    own = {"opentelemetry", *sys.stdlib_module_names}  # what the agent itself is built on
    assert loaded & (libraries - own) == set()


def test_no_hook_imports_what_it_waits_for() -> None:
    # It is loaded once that begins to be imported, and would find it half-made.
    always_there = {
        "logging",
        "opentelemetry",
        "os",
        "signal",
        "threading",
    }  # for the agent itself
    found = [
        hook.__name__
        for hook in map(hook_of, PLUGINS)
        for imported in imports_of(inspect.getsource(sys.modules[hook.__module__]))
        if imported in {patch.module.partition(".")[0] for patch in table(hook)} - always_there
    ]

    assert found == []


def imports_of(source: str) -> Iterator[str]:
    """The packages that a module imports where it is imported itself."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def patches(param: object) -> tuple[Patch | Replacement, ...]:
    hook = getattr(param, "values")[0]  # noqa: B009 - pytest's ParameterSet has no type of its own
    return table(hook)
