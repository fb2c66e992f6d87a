"""The table of the docs: each way that work takes, and whether it stays in its request's trace."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

import latencytrace
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.start import start, uninstrument
from latencytrace.settings import AgentSettings
from tests.propagation.between_rows import ROWS as BETWEEN
from tests.propagation.between_rows import redis_program
from tests.propagation.inside_rows import ROWS as INSIDE
from tests.propagation.tracing import Tracing
from tests.support.over_all import over_all

PAGE = Path(__file__).parents[2] / "docs" / "pages" / "propagation.md"

NEED_REDIS = {"celery_task", "redis_list"}

Row = Callable[[Tracing], bool]


@pytest.fixture
def tracing(settings: AgentSettings) -> Iterator[Tracing]:
    """Latencytrace with every hook applied."""
    start(settings, raise_fault)
    provider: Any = trace.get_tracer_provider()
    try:
        yield Tracing(provider, latencytrace.enqueue, batch, latencytrace.stage)
    finally:
        provider.shutdown()
        uninstrument()


def batch(tickets: Sequence[Any]) -> AbstractContextManager[object]:
    """The worker's side of a queue."""
    return latencytrace.batch(tickets, "work")


@pytest.mark.parametrize("row", INSIDE + BETWEEN, ids=lambda row: row.__name__)
def test_work_stays_in_the_trace_of_its_request(row: Row, tracing: Tracing) -> None:
    if row.__name__ in NEED_REDIS and redis_program() is None:
        pytest.skip("redis-server is not installed; on Debian and its like `make test` fetches it")

    assert row(tracing)


@over_all("row", INSIDE + BETWEEN, lambda row: row.__name__)
def test_every_way_has_its_row_in_the_docs(row: Row) -> None:
    described = str(row.__doc__).rstrip(".")

    assert f"| {described} |" in PAGE.read_text()
