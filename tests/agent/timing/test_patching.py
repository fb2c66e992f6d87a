"""Patches of a library that copies its own functions, put there before and after its import."""

import gc
import importlib
import pickle
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock
from weakref import ref

import pytest

from latencytrace.agent.timing.hook import Hook, ListedHook, Patch
from latencytrace.agent.timing.patching import AppliedHook, HookState
from latencytrace.model import Stage
from latencytrace.plugins import Plugin
from tests.support.agent.hooked import Spans

INNER = """
def search(query):
    return [query]


class Client:
    def embed(self, text):
        return (self, text)
"""
OUTER = """
from copying_library.inner import Client, search

client = Client()
embed = client.embed
"""


class CopyingHook(Hook):
    """Names each function in both of its places."""

    patches = (
        Patch("copying_library.inner", "search", Stage.RETRIEVE),
        Patch("copying_library.inner", "Client.embed", Stage.EMBED),
        Patch("copying_library", "search", Stage.RETRIEVE),
        Patch("copying_library", "embed", Stage.EMBED),
    )


@pytest.fixture
def library_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    package = tmp_path / "copying_library"
    package.mkdir()
    (package / "inner.py").write_text(INNER)
    (package / "__init__.py").write_text(OUTER)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.startswith("copying_library")]:
        del sys.modules[name]


def imported() -> tuple[ModuleType, ModuleType]:
    return (
        importlib.import_module("copying_library"),
        importlib.import_module("copying_library.inner"),
    )


@pytest.mark.usefixtures("library_is_there")
@pytest.mark.parametrize("hook_first", [True, False], ids=["hook first", "library first"])
def test_a_function_that_a_library_has_copied_is_timed_once_and_restored_in_both_places(
    spans: Spans, *, hook_first: bool
) -> None:
    if not hook_first:
        imported()
    hook = AppliedHook("copying", CopyingHook, spans.recorder)
    outer, inner = imported()

    assert outer.search("a") == ["a"]
    assert outer.embed("b") == (outer.client, "b")
    assert spans.stages == [Stage.RETRIEVE, Stage.EMBED]
    assert outer.embed.__self__ is outer.client
    assert hook.status.state is HookState.APPLIED

    hook.restore()
    assert outer.search is inner.search
    assert outer.embed == outer.client.embed
    assert outer.embed.__func__ is inner.Client.embed
    assert outer.search("a") == ["a"]
    assert outer.embed("b") == (outer.client, "b")
    assert len(spans.all) == 2
    for function in (inner.search, inner.Client.embed):
        assert not hasattr(function, "__wrapped__")


class BothNamesHook(Hook):
    """Names two libraries that have the same call."""

    patches = (
        Patch("copying_library.inner", "Client.embed", Stage.EMBED),
        Patch("copying_library.inner", "search", Stage.RETRIEVE),
        Patch("another_library", "Client.embed", Stage.EMBED),
        Patch("another_library", "search", Stage.RETRIEVE),
    )


@pytest.mark.usefixtures("library_is_there")
def test_a_module_with_the_names_of_two_libraries_is_patched_once(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, inner = imported()
    search, embed = inner.search, inner.Client.embed
    monkeypatch.setitem(sys.modules, "another_library", inner)
    hook = AppliedHook("both", BothNamesHook, spans.recorder)

    assert inner.search.__wrapped__ is search
    assert inner.Client.embed.__wrapped__ is embed

    hook.restore()
    assert (inner.search, inner.Client.embed) == (search, embed)


def _pickled(function: object) -> object:
    return pickle.loads(pickle.dumps(function))  # noqa: S301 - our own


class CopyHook(Hook):
    """Names a function only where it was copied to."""

    patches = (Patch("copying_library", "search", Stage.RETRIEVE),)


@pytest.mark.usefixtures("library_is_there")
@pytest.mark.parametrize("kind", [CopyHook, CopyingHook])
def test_a_function_is_pickled_as_ever_wherever_it_was_copied_to(
    spans: Spans, kind: type[Hook]
) -> None:
    outer, inner = imported()
    hook = AppliedHook("copied", kind, spans.recorder)

    assert _pickled(outer.search) is outer.search
    assert _pickled(inner.search) is inner.search
    assert _pickled(inner.Client.embed) is inner.Client.embed

    hook.restore()
    assert _pickled(outer.search) is inner.search


LATE = """
from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.model import Stage

class LateHook(Hook):
    requires = ("{requires}",)
    patches = (
        Patch("copying_library.inner", "search", Stage.RETRIEVE),
        Patch("copying_library.inner", "Client.embed", Stage.EMBED),
    )
"""
LISTED_MODULES = ("copying_library.inner", "copying_library.absent")


@pytest.mark.usefixtures("library_is_there")
@pytest.mark.parametrize(
    ("requires", "state", "is_loaded"),
    [
        ("pytest >= 1", HookState.APPLIED, True),
        ("pytest >= 9999", HookState.REFUSED, False),
        ("pytest since 1", HookState.APPLIED, True),
        ("pytest since 9999", HookState.ABSENT, False),
        ("no-such-thing >= 1", HookState.ABSENT, False),
    ],
)
def test_a_listed_hook_is_loaded_with_its_library(
    spans: Spans, tmp_path: Path, requires: str, state: HookState, *, is_loaded: bool
) -> None:
    (tmp_path / "late_hook.py").write_text(LATE.format(requires=requires))
    plugin = Plugin("late", "late_hook:LateHook")
    applied = AppliedHook("late", ListedHook(plugin, (requires,), LISTED_MODULES), spans.recorder)
    before = applied.status
    assert "late_hook" not in sys.modules

    _, inner = imported()
    inner.search("a")
    during = applied.status
    was_loaded = sys.modules.pop("late_hook", None) is not None
    applied.restore()
    inner.search("b")

    assert before.state is (HookState.WAITING if is_loaded else state)
    assert during.state is state
    assert was_loaded is is_loaded
    assert spans.stages == [Stage.RETRIEVE] * is_loaded
    assert not hasattr(inner.search, "__wrapped__")


def test_a_listed_hook_that_waits_says_for_what(spans: Spans) -> None:
    plugin = Plugin("late", "late_hook:LateHook")
    applied = AppliedHook("late", ListedHook(plugin, (), LISTED_MODULES), spans.recorder)

    assert applied.status.reason == (
        "the program has not imported copying_library.absent, copying_library.inner"
    )

    applied.restore()
    assert "late_hook" not in sys.modules


class Base:
    """A class that has not got what its subclasses have."""


class Early(Base):
    """One that is there before the hook."""

    def work(self) -> str:
        """Name itself."""
        return "early"


class LaterHook(Hook):
    """Names a method by a class above all that have it."""

    patches = (Patch(__name__, "Base.work", Stage.FORWARD, later=True),)


MODULE = f"""
from {__name__} import Early

class Late(Early):
    def work(self):
        return f"late, {{super().work()}}"

class Copied(Early):
    work = Late.work

class Kinds(Early):
    @staticmethod
    def work():
        return "kinds"
"""


def module_made_later() -> ModuleType:
    """A module with classes of its own, as a program imports one."""
    module = ModuleType("imported_later")
    exec(MODULE, vars(module))  # noqa: S102 - our own
    return module


def made_later() -> type[Early]:
    found: type[Early] = module_made_later().Late
    return found


def test_methods_of_subclasses_that_are_made_later_are_patched_and_restored() -> None:
    spans = Spans()
    before = vars(Early)["work"]

    applied = AppliedHook("later", LaterHook, spans.recorder)
    Late = made_later()  # noqa: N806 - a class

    assert (applied.status.state, Late().work(), spans.names) == (
        HookState.APPLIED,
        "late, early",
        ["work"],
    )
    applied.restore()
    assert vars(Early)["work"] is before
    assert not hasattr(vars(Late)["work"], "__wrapped__")
    assert "__init_subclass__" not in vars(Base)


def test_what_a_class_does_as_its_subclasses_are_made_it_still_does() -> None:
    made: list[object] = []

    class Registering(Base):
        def __init_subclass__(cls, *, name: str, **kwargs: object) -> None:
            super().__init_subclass__(**kwargs)
            made.append((cls.__name__, name))

    applied = AppliedHook("later", LaterHook, Spans().recorder)
    source = "class Late(Registering, name='one'):\n    def work(self): ..."
    names = {"Registering": Registering, "__name__": "imported_later"}
    exec(source, names)  # noqa: S102 - our own

    patched = hasattr(vars(names["Late"])["work"], "__wrapped__")
    applied.restore()
    assert (made, patched) == ([("Late", "one")], True)


@pytest.fixture
def later() -> Iterator[Spans]:
    """Spans of a hook that times classes that are made later, restored in the end."""
    spans = Spans()
    applied = AppliedHook("later", LaterHook, spans.recorder)
    yield spans
    applied.restore()


def test_classes_that_are_pickled_by_value_are_left_as_they_are(later: Spans) -> None:
    class Local(Base):
        def work(self) -> str:
            return "local"

    of_script: dict[str, object] = {"Base": Base, "__name__": "__main__"}
    exec("class Own(Base):\n    def work(self): ...", of_script)  # noqa: S102 - our own

    for kind in (Local, of_script["Own"]):
        assert not hasattr(vars(kind)["work"], "__wrapped__")
    assert (Local().work(), later.names) == ("local", [])


def test_what_is_no_method_stays_what_it_is(later: Spans) -> None:
    values = [partial(str, "a"), int, Mock(), "text".upper, len]

    kinds: list[Any] = [
        type("Valued", (Base,), {"work": value, "__module__": "imported_later"})
        for value in values
    ]

    assert [vars(kind)["work"] for kind in kinds] == values
    assert (kinds[0]().work(), kinds[1]().work("2"), kinds[3]().work()) == ("a", 2, "TEXT")
    assert later.all == []


def test_a_method_that_a_later_class_has_of_another_is_timed_once_and_restored() -> None:
    spans = Spans()
    applied = AppliedHook("later", LaterHook, spans.recorder)
    module = module_made_later()

    assert vars(module.Copied)["work"] is vars(module.Late)["work"]
    assert (module.Kinds.work(), module.Kinds().work(), spans.names) == (
        "kinds",
        "kinds",
        ["work", "work"],
    )

    applied.restore()
    assert isinstance(vars(module.Kinds)["work"], staticmethod)
    for kind in (module.Late, module.Copied, module.Kinds):
        assert not hasattr(kind.work, "__wrapped__")
    assert module.Kinds.work() == "kinds"
    assert len(spans.all) == 2


@pytest.mark.usefixtures("later")
def test_a_class_that_is_made_later_is_freed_as_ever() -> None:
    made = [ref(made_later()) for _ in range(3)]

    gc.collect()

    assert [kind() for kind in made] == [None] * 3
