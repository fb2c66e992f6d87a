"""Where calls that block the event loop are forbidden, the agent makes none of them."""

import json
import sys
from collections.abc import Iterator
from subprocess import run

import pytest

from tests.support.agent.receiving import Receiver
from tests.support.servers.command_line import environment

pytest.importorskip("blockbuster")
REQUESTS = 20
INNER = 4  # requests that others call


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.mark.parametrize("order", ["before", "after"])
def test_no_request_is_lost_below_blockbuster(receiver: Receiver, order: str) -> None:
    program = (sys.executable, "-m", "tests.support.programs.never_blocking_app", order)
    env = environment(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint)

    ended = run(program, env=env, capture_output=True, text=True, check=True)

    assert json.loads(ended.stdout) == {"statuses": [200] * REQUESTS, "faults": 0, "error": None}
    routes = [span for span in receiver.spans if span.name.startswith("GET /")]
    assert len(routes) == REQUESTS + INNER
