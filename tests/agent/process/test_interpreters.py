"""Subinterpreters of a traced process: the agent starts in none, so that each can end."""

import os
import sys

import pytest

from tests.support.servers.command_line import python
from tests.support.servers.nowhere import NOWHERE

NAME = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
pytest.importorskip(NAME)

# As mod_wsgi makes them; isolated ones can have no threads at all.
CREATE = "create('legacy')" if sys.version_info >= (3, 13) else "create(isolated=False)"
RUN = "exec" if sys.version_info >= (3, 13) else "run_string"
ASKED = "import latencytrace as l; l.instrument(); print(l.agent_status().running, flush=True)"


def test_a_subinterpreter_ends_in_which_the_agent_was_to_start() -> None:
    run = python(
        "-c",
        f"import {NAME} as i; {ASKED}; one = i.{CREATE}; i.{RUN}(one, {ASKED!r}); i.destroy(one)",
        env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": NOWHERE},
    )

    assert (run.returncode, run.stdout.split()) == (0, ["True", "False"]), run.stderr
    assert "latencytrace stays off in a subinterpreter" in run.stderr
