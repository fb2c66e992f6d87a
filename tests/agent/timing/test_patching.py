"""Patches of a library that copies its own functions, put there before and after its import."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.timing.patching import AppliedHook, HookState
from latencytrace.model import Stage
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
