"""The real binding of NVIDIA's library, on a fake of the library."""

from collections.abc import Iterator

import pynvml
import pytest

from tests.support.fakes import nvml as fake_nvml
from tests.support.fakes.nvml import FakeNvml


@pytest.fixture(scope="session")
def built_nvml(tmp_path_factory: pytest.TempPathFactory) -> FakeNvml:
    """The fake, compiled once."""
    if fake_nvml.compiler() is None:
        pytest.skip("needs a C compiler")
    return FakeNvml(fake_nvml.build(tmp_path_factory.mktemp("nvml")))


@pytest.fixture
def nvml(built_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    """The fake with one idle GPU, which the binding takes for the driver's library."""
    built_nvml.reset()
    monkeypatch.setattr(pynvml, "nvmlLib", built_nvml.library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "_nvmlLib_refcount", 0)
    yield built_nvml
    built_nvml.reset()
