"""A fault in any function of the agent's, in turn: the program returns and raises the same."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.agent.receiving import Receiver

pytestmark = pytest.mark.long


# It takes a while: some hundred times a program is run, with another function broken each time.
@pytest.mark.timeout(600)
def test_a_fault_in_any_function_of_ours_changes_nothing_for_the_program(
    receiver: Receiver,
) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.agent.walk_faults", receiver.endpoint]

    # Of the forms in Python: what fails in C is an allocation (see `tests/agent/compiled`).
    environment = {**os.environ, "LATENCYTRACE_COMPILED": "0"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=590, check=True
    )

    walked = json.loads(done.stdout)
    assert walked["changes"] == []
    assert walked["edges_that_are_gone"] == []
    assert walked["broken"] > 150
