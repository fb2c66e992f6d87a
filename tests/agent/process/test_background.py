"""Threads of ours leave the program what is the program's."""

from pathlib import Path

import pytest

from tests.support.agent.receiving import Receiver
from tests.support.servers.command_line import python

WAITS_FOR_A_SIGNAL = """
import os, signal, sys
{patched}
import latencytrace

latencytrace.instrument("waits", endpoint=sys.argv[1])
with latencytrace.stage("first"):
    pass
latencytrace.flush()  # by a thread of ours
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    os.kill(os.getpid(), number)
    assert signal.sigwait([number]) == number
print("got them")
"""


@pytest.mark.parametrize("patched", ["", "from gevent import monkey; monkey.patch_all()"])
def test_a_signal_that_a_program_waits_for_is_not_taken_by_a_thread_of_ours(
    receiver: Receiver, tmp_path: Path, patched: str
) -> None:
    script = tmp_path / "waits.py"
    script.write_text(WAITS_FOR_A_SIGNAL.format(patched=patched))

    done = python(script, receiver.endpoint)

    assert (done.returncode, done.stdout) == (0, "got them\n"), done.stderr
    assert [span.name for span in receiver.spans] == ["first"]
