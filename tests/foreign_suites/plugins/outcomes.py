"""A plugin of pytest that writes each test's outcome to the file `OUTCOMES`, a line of JSON each.

With `INSTRUMENTED_LAST` set it starts the agent once all tests and what they import are loaded.
"""

import json
import os
from pathlib import Path

import pytest

OUTCOMES = Path(os.environ["OUTCOMES"])  # once: a test may empty the environment
INSTRUMENTED_LAST = bool(os.environ.get("INSTRUMENTED_LAST"))


def pytest_collection_finish() -> None:
    """Start the agent, if it is to come last."""
    if INSTRUMENTED_LAST:
        import latencytrace  # here: it must come last

        latencytrace.instrument()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write an outcome."""
    if report.when == "call" or report.outcome != "passed":
        with OUTCOMES.open("a") as file:
            line = {
                "test": report.nodeid,
                "outcome": report.outcome,
                "why": report.longreprtext[-4000:],
            }
            file.write(json.dumps(line) + "\n")
