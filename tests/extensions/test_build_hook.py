"""Extensions are compiled where there is a compiler, and done without where there is none."""

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from latencytrace.extensions.loading import PACKAGES

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
FOLDERS = [Path(*package.split(".")) for package in PACKAGES]


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """The build hook, which hatchling loads by its path likewise."""
    pytest.importorskip("hatchling")
    path = ROOT / "latencytrace/extensions/build_hook.py"
    spec = importlib.util.spec_from_file_location("build_hook", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The sources alone."""
    for source in ROOT.glob("latencytrace/**/*.[ch]"):
        copy = tmp_path / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)
    return tmp_path


def test_every_package_that_has_an_extension_is_compiled(hook: ModuleType) -> None:
    assert [".".join(folder.parts) for folder in hook.folders(ROOT)] == sorted(PACKAGES)


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_it_is_compiled_without_a_warning(
    hook: ModuleType, checkout: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CFLAGS", "-Werror")

    built = hook.compiled(checkout, folder)

    assert built is not None
    assert (checkout / built).is_file()
    assert sys.implementation.cache_tag.removeprefix("cpython-") in built.name


def test_without_a_compiler_the_package_is_whole_all_the_same(
    hook: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")

    with pytest.warns(UserWarning, match=r"without latencytrace\..*\._core"):
        built = hook.compiled(checkout, FOLDERS[0])

    assert built is None


def test_a_setting_refuses_it(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LATENCYTRACE_COMPILED", raising=False)
    assert hook.can_be_compiled()

    monkeypatch.setenv("LATENCYTRACE_COMPILED", "0")

    assert not hook.can_be_compiled()
