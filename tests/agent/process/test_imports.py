"""Being called once a module is imported, without the program seeing anything of it."""

import importlib
import importlib.machinery
import importlib.util
import inspect
import pkgutil
import sys
import threading
import zipfile
import zipimport
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from latencytrace.agent.process import imports
from latencytrace.agent.process.imports import after_import, forget

NAME = "imported_late"
SOURCE = "import pkgutil\nloader_then = __loader__\ntext = pkgutil.get_data(__name__, 'text')\n"
Seen = list[ModuleType]


@pytest.fixture(params=["folder", "archive"])
def there(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A module in a folder, or in an archive."""
    if request.param == "folder":
        (tmp_path / f"{NAME}.py").write_text(SOURCE)
        (tmp_path / "text").write_text("a line")
        monkeypatch.syspath_prepend(tmp_path)
    else:
        with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
            archive.writestr(f"{NAME}.py", SOURCE)
            archive.writestr("text", "a line")
        monkeypatch.syspath_prepend(tmp_path / "archive.zip")
    yield
    sys.modules.pop(NAME, None)


@pytest.fixture
def seen() -> Iterator[Seen]:
    """The modules that were told of."""
    modules: Seen = []
    call: Callable[[ModuleType], None] = modules.append
    after_import(NAME, call)
    yield modules
    forget(NAME, call)


class AsksAll:
    """A finder that asks all others for what it looks for, as ours does."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec that the first of the others finds."""
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)) is not None:
                return spec
        return None


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("place", [0, 1])
def test_another_finder_that_asks_all_others_may_stand_before_or_behind(
    seen: Seen, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta_path: list[Any] = [*sys.meta_path]
    meta_path.insert(place, AsksAll())
    monkeypatch.setattr(sys, "meta_path", meta_path)

    module = importlib.import_module(NAME)

    assert seen == [module]


@pytest.mark.usefixtures("there")
def test_who_waits_is_called_once_with_the_whole_module(seen: Seen) -> None:
    assert seen == []

    module = importlib.import_module(NAME)
    importlib.reload(module)

    assert seen == [module]
    assert module.text == b"a line"


@pytest.mark.usefixtures("there", "seen")
def test_the_module_has_its_own_loader_from_its_first_line_on() -> None:
    module = importlib.import_module(NAME)

    assert module.__spec__ is not None
    assert module.__loader__ is module.__spec__.loader is module.loader_then
    assert type(module.__loader__).__module__ != after_import.__module__
    assert inspect.getsource(module) == SOURCE
    assert pkgutil.get_data(NAME, "text") == b"a line"


@pytest.mark.usefixtures("there")
def test_who_only_looks_for_the_module_finds_it_as_ever(seen: Seen) -> None:
    spec = importlib.util.find_spec(NAME)

    assert spec is not None
    assert spec.loader is not None
    assert isinstance(spec.loader, (importlib.machinery.SourceFileLoader, zipimport.zipimporter))
    assert spec.loader.get_source(NAME) == SOURCE
    assert seen == []
    assert NAME not in sys.modules


def test_a_module_that_is_imported_already_is_told_at_once() -> None:
    modules: Seen = []

    after_import("threading", modules.append)

    assert modules == [threading]


@pytest.mark.usefixtures("there")
def test_an_import_that_fails_is_the_programs_and_the_next_one_is_told(
    seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / f"{NAME}.py").write_text("raise LookupError('its own')")
    with monkeypatch.context() as first:
        first.syspath_prepend(broken)
        with pytest.raises(LookupError, match="its own"):
            importlib.import_module(NAME)
    importlib.invalidate_caches()

    assert seen == []
    assert importlib.import_module(NAME) is seen[0]


def test_an_import_of_what_is_not_there_fails_as_ever(seen: Seen) -> None:
    with pytest.raises(ModuleNotFoundError, match=NAME):
        importlib.import_module(NAME)

    assert seen == []


@pytest.mark.usefixtures("there")
def test_a_fault_of_who_is_called_is_not_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[str] = []
    monkeypatch.setattr(imports, "edge_faults", lambda _, fault: faults.append(str(fault)))

    def fail(_: ModuleType) -> None:
        raise LookupError("of ours")

    after_import(NAME, fail)

    assert importlib.import_module(NAME).text == b"a line"
    assert faults == ["of ours"]


@pytest.mark.usefixtures("there")
def test_who_was_forgotten_is_not_called() -> None:
    modules: Seen = []
    call: Callable[[ModuleType], None] = modules.append
    after_import(NAME, call)

    forget(NAME, call)
    importlib.import_module(NAME)

    assert modules == []
