"""What holds for every test: faults are raised again, no network, no file in the checkout."""

import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, settings

from latencytrace.agent.guard import FaultCounter, edge_faults, raise_fault
from latencytrace.agent.timing.processor_waits import PROCESSOR_WAITS
from tests.support.clickhouse.front import ClickHouseFront
from tests.support.repository.tree import out_of_place, strangers
from tests.support.servers import nowhere  # noqa: F401 - workers take its port
from tests.support.waiting import PATIENCE_S

# OpenMP's threads spin while they wait: where others want the cores, each step would take seconds.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Machines that run tests are shared: how long an example takes, or its making, says nothing.
# `make test` tries a fifth of the examples that `make test-all` does, other ones each time.
_untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", _untimed, max_examples=50)
settings.register_profile("quick", _untimed, max_examples=10)
settings.load_profile("quick")

# So does how long a request's thread waited for a processor: tests of that ask for it.
PROCESSOR_WAITS._files = None

# By far the longest: begun late, one of them would keep a worker busy while the other has no more.
LONGEST = (
    "tests/end_to_end/test_service.py",
    "tests/end_to_end/test_pages.py",
    "tests/contracts/test_every_store.py",
    "tests/cli/commands/test_doctor.py",
    "tests/end_to_end/test_analysis_pages.py",
    "tests/end_to_end/test_conservation.py",
    "tests/end_to_end/test_one_alertmanager.py",
    "tests/end_to_end/test_fleet.py",
    "tests/end_to_end/test_objectives.py",
    "tests/end_to_end/test_rag_chat.py",
    "tests/end_to_end/test_demo_compared.py",
    "tests/end_to_end/test_agreement.py",
    "tests/end_to_end/test_hostile_senders.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag of `make pictures`."""
    parser.addoption("--pictures", type=Path, help="a folder whose pictures of pages are renewed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have several workers begin with the files that take longest; the others keep their order."""
    if not hasattr(config, "workerinput"):
        return
    place = {file: number for number, file in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(LONGEST)))


def pytest_collection_finish() -> None:
    """Have the collector of garbage look no more at the libraries that tests imported."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseFront]:
    """A ClickHouse server; each test has a database of its own there."""
    with ClickHouseFront(tmp_path_factory.mktemp("clickhouse") / "engine") as started:
        yield started


@pytest.fixture(autouse=True)
def faults_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide no fault of ours; a test of the counting itself overrides this fixture."""

    def raise_again(_: FaultCounter, doing: str, fault: Exception) -> None:
        raise_fault(doing, fault)

    monkeypatch.setattr(FaultCounter, "__call__", raise_again)


@pytest.fixture(autouse=True)
def no_fault_was_counted_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the process's faults from zero, and log each kind anew."""
    monkeypatch.setattr(edge_faults, "faults", 0)
    monkeypatch.setattr(edge_faults, "_logged", set())


@pytest.fixture(autouse=True)
def the_level_of_logging_is_restored() -> Iterator[None]:
    """Undo what a Celery worker in this process sets for all loggers."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)


@pytest.fixture(autouse=True)
def background_tasks_are_restored() -> Iterator[None]:
    """Undo what contrib's `instrument_app` does to a class that all applications share."""
    yield
    tasks = getattr(sys.modules.get("starlette.background"), "BackgroundTask", None)
    if tasks is not None and hasattr(tasks, "_otel_original_call"):
        tasks.__call__ = tasks._otel_original_call
        del tasks._otel_original_call


@pytest.fixture(autouse=True, scope="session")
def programs_have_full_detail() -> Iterator[None]:
    """Let no agent keep a budget on a busy machine; tests of budgets set their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LATENCYTRACE_OVERHEAD", "off")
        yield


@pytest.fixture(autouse=True, scope="session")
def interrupts_are_heard() -> None:
    """Undo what a shell does to its background jobs: programs that tests start inherit it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def answers_may_be_late() -> Iterator[None]:
    """Have httpx wait as long as other guards do: five seconds, as by default, measure speed."""
    with pytest.MonkeyPatch.context() as patched:
        for phase in ("connect", "read", "write", "pool"):
            patched.setattr(DEFAULT_TIMEOUT_CONFIG, phase, PATIENCE_S)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_gpus() -> Iterator[None]:
    """Leave a GPU of the machine alone, whose metrics the tests do not expect."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LATENCYTRACE_GPU", "0")
        yield


@pytest.fixture(autouse=True, scope="session")
def the_checkout_stays_clean() -> Iterator[None]:
    """Fail if a test, or a program that it started, wrote a log or data into the checkout.

    Files that lay there before do not count, nor do sources that somebody adds meanwhile.
    """
    before = strangers()
    yield
    written = out_of_place(strangers() - before)
    assert written == [], f"written into the checkout while tests ran: {', '.join(written)}"


@pytest.fixture(autouse=True, scope="session")
def no_network_but_loopback() -> Iterator[None]:
    """Refuse connections to any other machine."""
    connect = socket.socket.connect

    def connect_to_loopback(self: socket.socket, address: tuple[str, int]) -> None:
        if self.family in {socket.AF_INET, socket.AF_INET6}:
            host = address[0]
            if not (host in {"localhost", "::1"} or host.startswith("127.")):
                pytest.fail(f"a test connects to {host}: use loopback")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(socket.socket, "connect", connect_to_loopback)
        yield
