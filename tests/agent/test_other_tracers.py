"""Other tools that patch the same libraries, with the real ones: in both orders nothing breaks."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.agent import beside_tracer
from tests.support.agent.receiving import Receiver
from tests.support.servers.recording import RecordingServer

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = Path(os.environ.get("LATENCYTRACE_TEST_TRACERS", ROOT / ".venv/own"))
# Those that have an environment of their own; the others are in this one.
OWN = {
    "logfire": "logfire",
    "langsmith": "langsmith",
    "agentops": "agentops",
    "traceloop-sdk": "traceloop",
    "openlit": "openlit",
    "openinference-instrumentation-openai": "phoenix",
}
TOOLS = [tool for tool in beside_tracer.TOOLS if tool != "none"]
VERSION = "import importlib.metadata, sys; importlib.metadata.version(sys.argv[1])"


def python_of(tool: str) -> str:
    """The interpreter that has a tool."""
    python = str(ENVIRONMENTS / OWN[tool] / "bin/python") if tool in OWN else sys.executable
    asked = [python, "-c", VERSION, tool]
    is_there = (
        Path(python).exists()
        and not subprocess.run(asked, capture_output=True, check=False).returncode
    )
    if not is_there:
        pytest.skip("it is not installed: `make test-tracers` brings it")
    return python


def outcome(python: str, tool: str, order: str, receiver: str) -> Mapping[str, object]:
    command = [python, "-W", "ignore", "-m", beside_tracer.__name__, tool, order]
    with RecordingServer() as theirs:
        done = subprocess.run(
            [*command, theirs.url, receiver],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            cwd=ROOT,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def untraced() -> dict[str, Mapping[str, object]]:
    """What the program does without any tool, by the interpreter."""
    return {}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("order", ["theirs-first", "ours-first"])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_program_that_two_tools_trace_does_what_it_does_untraced(
    receiver: Receiver, untraced: dict[str, Mapping[str, object]], tool: str, order: str
) -> None:
    python = python_of(tool)
    if python not in untraced:
        untraced[python] = outcome(python, "none", "untraced", receiver.endpoint)

    both = outcome(python, tool, order, receiver.endpoint)

    assert both == untraced[python]
    assert both["faults"] == 0
    assert both["ended"] is True
    assert {"GET /plain", "GET /stream"} <= {span.name for span in receiver.spans}
