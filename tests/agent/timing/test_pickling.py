"""Patched functions are pickled as ever, and tools find in them what they look for."""

import asyncio
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from latencytrace.agent.hooks.event_loop import EventLoopHook
from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, hooked

MODULE = "a_pickled_library"
Library = Any  # the class of a module of a test's own
SOURCE = """
class Library:
    @classmethod
    def load(cls, name, size=3, *, kind="small"):
        return cls.__name__, name, size, kind

    def call(self, text, more="", *, last="."):
        return text + more + last
"""


class BothHook(Hook):
    """Times a method and a classmethod, which is pickled by value: its name is a bound method."""

    patches = (
        Patch(MODULE, "Library.load", Stage.LOAD),
        Patch(MODULE, "Library.call", Stage.RETRIEVE),
    )


@pytest.fixture
def library() -> Iterator[Library]:
    module = sys.modules[MODULE] = ModuleType(MODULE)
    exec(SOURCE, vars(module))  # noqa: S102 - a module of the test's own
    yield module.Library
    del sys.modules[MODULE]


SHOWN: dict[str, Callable[[Library], Any]] = {
    "classmethod": lambda kind: kind.load,
    "bound method": lambda kind: kind().call,
    "function": lambda kind: kind.call,
}
CASES = [
    (by, name)
    for by in ("pickle", "cloudpickle", "dill")
    for name in SHOWN
    if (by, name) != ("dill", "classmethod")  # whose function it takes with all its module
]


@pytest.mark.parametrize(("by", "name"), CASES)
def test_a_patched_function_is_pickled(spans: Spans, library: Library, by: str, name: str) -> None:
    pickler = pytest.importorskip(by)
    with hooked(BothHook, spans=spans):
        function = SHOWN[name](library)
        again = pickler.loads(pickler.dumps(function))
        arguments = (library(), "text") if inspect.isfunction(function) else ("text",)

        assert again(*arguments) == function(*arguments)


def test_a_patched_function_has_what_functions_have(spans: Spans, library: Library) -> None:
    original = vars(library)["call"]
    with hooked(BothHook, spans=spans):
        patched = vars(library)["call"]

        assert patched is not original
        assert inspect.signature(patched) == inspect.signature(original)
        assert patched.__defaults__ == original.__defaults__ == ("",)
        assert patched.__kwdefaults__ == original.__kwdefaults__ == {"last": "."}
        assert patched.__module__ == original.__module__
        assert inspect.unwrap(patched) is original


def test_what_runs_a_loops_callbacks_has_the_code_that_tools_look_for(spans: Spans) -> None:
    original = asyncio.events.Handle._run
    with hooked(EventLoopHook, spans=spans):
        patched: Any = asyncio.events.Handle._run

        assert patched is not original
        assert patched.__code__.co_varnames
        assert patched.__defaults__ is None
        assert asyncio.run(asyncio.sleep(0, "done")) == "done"


@pytest.mark.parametrize("by", ["cloudpickle", "dill"])
def test_a_tokenizers_method_is_pickled(spans: Spans, by: str) -> None:
    pickler, tokenizers = pytest.importorskip(by), pytest.importorskip("tokenizers")
    hook = importlib.import_module("latencytrace.agent.hooks.tokenizers").TokenizersHook
    with hooked(hook, spans=spans):
        encode = tokenizers.Tokenizer.encode

        assert pickler.loads(pickler.dumps(encode)) is encode
