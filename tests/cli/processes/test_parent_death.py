"""What is left behind when we are killed and can do nothing any more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.command_line import environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells children")

HOLDING = (
    "import signal, sys; held = open(sys.argv[1], 'w'); held.write('ready'); held.flush();"
    "signal.pause()"
)
IN_BACKGROUND = """
import signal, sys
from pathlib import Path
from latencytrace.cli.processes.background_program import BackgroundProgram
BackgroundProgram("child", sys.argv[2:], Path(sys.argv[1])).start()
signal.pause()
"""
IN_FOREGROUND = """
import os, sys
from latencytrace.cli.processes.foreground import run_in_foreground
run_in_foreground(sys.argv[2:], os.environ)
"""


@pytest.mark.parametrize(
    "parent", [IN_BACKGROUND, IN_FOREGROUND], ids=["background", "foreground"]
)
def test_a_child_ends_when_its_parent_is_killed(parent: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    child = (sys.executable, "-c", HOLDING, str(pipe))
    with (
        subprocess.Popen(
            [sys.executable, "-c", parent, tmp_path / "log", *child], env=environment()
        ) as process,
        pipe.open() as held,
    ):  # the child's end closes when it ends, and not before
        held.read(len("ready"))

        process.kill()
        rest = held.read()

    assert rest == ""
