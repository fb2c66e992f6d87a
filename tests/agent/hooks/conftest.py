"""Models that need no download, made once: the hooks are tested with the real libraries."""

import pytest

from tests.agent.hooks import tiny_chat as model


@pytest.fixture(scope="session")
def tiny_chat() -> model.TinyChat:
    """A model that generates, small enough to do so in milliseconds."""
    return model.tiny_chat()
