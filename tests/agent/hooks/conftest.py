"""Models that need no download and servers, made once: hooks meet the real libraries."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from latencytrace.agent.timing import holds
from tests.support.agent.hooked import Spans, hooked
from tests.support.brokers.rabbitmq import rabbitmq_server
from tests.support.later import Later
from tests.support.model_apis.server import ModelApi, serving_models
from tests.support.models import tiny_chat as model
from tests.support.servers.postgres import program, serving_postgres


@pytest.fixture(autouse=True, scope="module")
def libraries_are_imported(request: pytest.FixtureRequest) -> None:
    """Import what the file says is imported later, before a hook is applied."""
    for one in list(vars(request.module).values()):
        if isinstance(one, Later):
            one.imported()


@pytest.fixture
def spans(request: pytest.FixtureRequest) -> Iterator[Spans]:
    """Spans of the hooks that the module names in `HOOKS`."""
    with hooked(*request.module.HOOKS) as spans:
        yield spans


@pytest.fixture
def late_is_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take what waited for a held loop to run soon after, however late the machine runs it."""
    monkeypatch.setattr(holds, "_RESUMED_WITHIN_NS", 10**15)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[ModelApi]:
    """A server of the `DIALECT` that the module names."""
    with serving_models(request.module.DIALECT) as server:
        yield server


@pytest.fixture(scope="session")
def tiny_chat() -> model.TinyChat:
    """A model that generates, small enough to do so in milliseconds."""
    return model.tiny_chat()


@pytest.fixture(scope="session")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a model for llama.cpp."""
    from tests.support.models.tiny_gguf import write_tiny_gguf

    return write_tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a RabbitMQ server."""
    with rabbitmq_server(tmp_path_factory.mktemp("rabbitmq")) as address:
        yield address


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """What clients of a PostgreSQL server connect with."""
    if program("initdb") is None:
        pytest.skip("PostgreSQL is not installed")
    with serving_postgres() as address:
        yield address
