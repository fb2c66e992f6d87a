"""A call that fails in our hands before its original is reached is made as without us."""

import logging
import sys
from collections.abc import Callable, Iterator
from inspect import isasyncgenfunction
from types import ModuleType
from typing import Any

import pytest
import wrapt

from latencytrace.agent.guard import edge_faults
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.patching import AppliedHook
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import timed
from tests.support.agent.forms import FORMS, async_generator, outcome
from tests.support.agent.hooked import Spans

MODULE = "a_library_patched_badly"
Build = Callable[[Recorder, Timed], Timed]


class Fault(Exception):  # noqa: N818 - it is ours
    """A fault of ours."""


class BrokenCall:
    """A call under way that cannot be made current."""

    def activate(self) -> None:
        """Fail."""
        raise Fault


def fails_to_begin(_: Recorder, original: Timed) -> Timed:
    def begin(_args: object, _kwargs: object) -> Any:
        raise Fault

    return timed(original, begin)


def fails_to_activate(_: Recorder, original: Timed) -> Timed:
    return timed(original, lambda _args, _kwargs: BrokenCall())  # type: ignore[arg-type,return-value]


def fails_in_its_own_words(_: Recorder, original: Timed) -> Timed:
    def called(*args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            raise Fault
        return original()

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return called(*args, **kwargs)

    def each(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yield from called(*args, **kwargs)

    if original.__name__ == "generator":
        return each
    return awaited if original.__name__ == "coroutine" else called


BUILDS = (fails_to_begin, fails_to_activate, fails_in_its_own_words)
CASES = [
    pytest.param(build, form, id=f"{build.__name__} {name}")
    for build in BUILDS
    for name, form in FORMS.items()
    if not (build is fails_in_its_own_words and isasyncgenfunction(form))  # none is so written
    # Within a generator, a context that cannot be entered is a fault, and the rest goes on.
    if not (build is fails_to_activate and "generator" in name)
]


@pytest.fixture(autouse=True)
def faults_are_raised() -> None:
    """Count them, as in production."""


@pytest.fixture
def library() -> Iterator[ModuleType]:
    module = sys.modules[MODULE] = ModuleType(MODULE)
    yield module
    del sys.modules[MODULE]


def patched(library: ModuleType, form: Timed, build: Build) -> tuple[Any, AppliedHook]:
    made = type("Library", (), {"call": form, "__module__": MODULE})
    vars(library)["Library"] = made
    patches = (Replacement(MODULE, "Library.call", build),)
    hook = type("BadHook", (Hook,), {"patches": patches})
    return made, AppliedHook("bad", hook, Spans().recorder)


@pytest.mark.parametrize(("build", "form"), CASES)
def test_the_original_is_called_and_the_patch_takes_itself_away(
    library: ModuleType, caplog: pytest.LogCaptureFixture, build: Build, form: Timed
) -> None:
    made, _ = patched(library, form, build)
    faults = edge_faults.faults

    with caplog.at_level(logging.WARNING):
        first, second = outcome(made().call("text")), outcome(made().call("text"))

    assert first == second == ("Library", "text")
    assert vars(made)["call"] is form
    assert edge_faults.faults == faults + 1
    assert [form.__qualname__ in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize(("build", "form"), CASES)
def test_below_the_patch_of_another_tool_it_only_calls_the_original_from_then_on(
    library: ModuleType, build: Build, form: Timed
) -> None:
    made, _ = patched(library, form, build)
    wrapt.wrap_function_wrapper(made, "call", lambda call, _, args, kwargs: call(*args, **kwargs))
    faults = edge_faults.faults

    first, second = outcome(made().call("text")), outcome(made().call("text"))

    assert first == second == ("Library", "text")
    assert edge_faults.faults == faults + 1


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_a_wrong_call_raises_what_it_raises_and_is_no_fault(
    library: ModuleType, form: Timed
) -> None:
    made, _ = patched(library, form, fails_to_begin if form is async_generator else _harmless)
    faults = edge_faults.faults

    with pytest.raises(TypeError, match="positional argument"):
        outcome(made().call("text", "too many"))

    assert edge_faults.faults == faults
    assert vars(made)["call"] is not form


def _harmless(_: Recorder, original: Timed) -> Timed:
    def called(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return await original(*args, **kwargs)

    def each(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yield from original(*args, **kwargs)

    return {"coroutine": awaited, "generator": each}.get(original.__name__, called)


def _fails_afterwards(_: Recorder, original: Timed) -> Timed:
    def called(*args: Any, **kwargs: Any) -> Any:
        original(*args, **kwargs)
        raise Fault

    return called


@pytest.mark.parametrize("build", [_harmless, _fails_afterwards])
def test_an_original_that_was_reached_is_never_called_twice(
    library: ModuleType, build: Build
) -> None:
    calls = []

    def raising(_: object, text: str) -> None:
        calls.append(text)
        if build is _harmless:
            raise ValueError(text)

    made, _ = patched(library, raising, build)

    with pytest.raises((ValueError, Fault)):
        made().call("text")

    assert calls == ["text"]
