"""The service where memory is never written and run, as its unit of systemd has it."""

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.builders.compared_versions import REQUESTS, VERSIONS, compared_versions
from tests.support.builders.spans.otlp_messages import otlp
from tests.support.servers.command_line import COMMAND
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

PR_SET_MDWE: Final = 65  # Linux 6.3
CONFINED: Final = (
    "import ctypes, os, sys\n"
    f"if ctypes.CDLL(None).prctl({PR_SET_MDWE}, 1, 0, 0, 0): sys.exit(9)\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)
QUESTIONS: Final = (
    "/breakdown", "/breakdown/quantiles", "/breakdown/timeline", "/breakdown/groups?by=version",
    "/tail?quantile=0.9", "/compare?a=version%3D1&b=version%3Dslower-search", "/heatmap",
    "/requests", "/services",
)  # fmt: skip
OFTEN: Final = 4  # the engine would compile what is asked for the third time


def is_confinable() -> bool:
    """Whether this system can have it so."""
    command = [sys.executable, "-c", CONFINED, "/bin/true"]
    is_linux = sys.platform == "linux" and hasattr(ctypes.CDLL(None), "prctl")
    return is_linux and subprocess.run(command, check=False).returncode == 0


@pytest.mark.skipif(not is_confinable(), reason="needs Linux 6.3")
def test_the_service_answers_where_no_memory_is_written_and_run(tmp_path: Path) -> None:
    confined = (sys.executable, "-c", CONFINED, *COMMAND)

    with RunningService(tmp_path / "data", command=confined) as running:
        for spans in compared_versions():
            assert running.post(otlp(*spans)).is_success
        sent = REQUESTS * len(VERSIONS)
        until(lambda: running.ask("/breakdown")["requests"] == sent, running.said)
        for question in QUESTIONS * OFTEN:
            answer = running.get(f"/api/v1{question}")
            assert answer.status_code == 200, answer.text
        assert "mprotect" not in running.said()
