"""A program that is told to end by SIGTERM sends its last spans, and ends as without us."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.agent.receiving import Receiver
from tests.support.servers.command_line import python
from tests.support.waiting import PATIENCE_S

TERMINATED = """
import os, signal, sys
import latencytrace

if sys.argv[2] == "own":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
if sys.argv[2] == "ignored":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
latencytrace.instrument("terminated", endpoint=sys.argv[1])
with latencytrace.stage("last"):
    pass
if sys.argv[2] == "stopped":
    latencytrace.uninstrument()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
os.kill(os.getpid(), signal.SIGTERM)
if sys.argv[2] != "ignored":
    signal.pause()
"""


@pytest.mark.parametrize(
    ("handler", "code"), [("none", -15), ("own", 7), ("ignored", 0), ("stopped", -15)]
)
def test_a_program_that_is_terminated_sends_its_last_spans_and_ends_as_without_us(
    receiver: Receiver, tmp_path: Path, handler: str, code: int
) -> None:
    script = tmp_path / "terminated.py"
    script.write_text(TERMINATED)

    done = python(script, receiver.endpoint, handler)

    assert (done.returncode, done.stderr) == (code, "")
    assert [span.name for span in receiver.spans] == ["last"]


def test_a_receiver_that_hangs_puts_the_end_off_no_longer_than_it_may(
    receiver: Receiver, tmp_path: Path
) -> None:
    script = tmp_path / "terminated.py"
    script.write_text(TERMINATED)
    receiver.release.clear()

    done = subprocess.run(
        [sys.executable, script, receiver.endpoint, "none"], timeout=PATIENCE_S, check=False
    )

    assert done.returncode == -15


def test_a_program_that_may_start_no_thread_is_terminated_all_the_same(
    receiver: Receiver, tmp_path: Path
) -> None:
    script = tmp_path / "terminated.py"
    no_threads = """
def refuse(*_):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
os.kill"""
    script.write_text(
        TERMINATED.replace("import os,", "import threading, os,").replace("os.kill", no_threads)
    )

    done = subprocess.run(
        [sys.executable, script, receiver.endpoint, "none"], timeout=PATIENCE_S, check=False
    )

    assert done.returncode == -15
