"""The core is compiled where there is a compiler, and done without where there is none."""

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """The build hook, which hatchling loads by its path likewise."""
    pytest.importorskip("hatchling")
    path = ROOT / "latencytrace/agent/compiled/build_hook.py"
    spec = importlib.util.spec_from_file_location("build_hook", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The sources alone."""
    folder = tmp_path / "latencytrace/agent/compiled"
    folder.mkdir(parents=True)
    for source in (ROOT / "latencytrace/agent/compiled").glob("*.[ch]"):
        shutil.copy(source, folder)
    return tmp_path


def test_it_is_compiled_without_a_warning(
    hook: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CFLAGS", "-Werror")

    built = hook.compiled(checkout)

    assert built is not None
    assert (checkout / built).is_file()
    assert sys.implementation.cache_tag.removeprefix("cpython-") in built.name


def test_without_a_compiler_the_package_is_whole_all_the_same(
    hook: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")

    with pytest.warns(UserWarning, match="without its compiled core"):
        built = hook.compiled(checkout)

    assert built is None


def test_a_setting_refuses_it(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hook.can_be_compiled()

    monkeypatch.setenv("LATENCYTRACE_COMPILED", "0")

    assert not hook.can_be_compiled()
