"""Models that need no download, made once: the hooks are tested with the real libraries."""

from pathlib import Path

import pytest

from tests.support.models import tiny_chat as model


@pytest.fixture(scope="session")
def tiny_chat() -> model.TinyChat:
    """A model that generates, small enough to do so in milliseconds."""
    return model.tiny_chat()


@pytest.fixture(scope="session")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a model for llama.cpp."""
    from tests.support.models.tiny_gguf import write_tiny_gguf  # noqa: PLC0415 - only where it is there

    return write_tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf")
