"""Other tools that patch the same libraries, with the real ones: in both orders nothing breaks."""

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.agent import beside_tracer
from tests.support.agent.receiving import Receiver

TOOLS = beside_tracer.TOOLS


def outcome(tool: str, order: str, receiver: Receiver) -> Mapping[str, object]:
    command = [sys.executable, "-W", "ignore", beside_tracer.__file__, tool, order]
    done = subprocess.run(
        [*command, receiver.endpoint], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.mark.long
@pytest.mark.parametrize("order", ["theirs-first", "ours-first"])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_program_that_two_tools_trace_does_what_it_does_alone(
    receiver: Receiver, tool: str, order: str
) -> None:
    try:
        importlib.metadata.version(tool)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("it is not installed: `make test-tracers` brings it")

    both, alone = outcome(tool, order, receiver), outcome("none", "ours-first", receiver)

    assert both == alone
    assert both["faults"] == 0
    assert both["ended"] is True
    assert receiver.spans
