"""A process that ends at once sends its last spans first, or counts them."""

from pathlib import Path

import pytest

from tests.support.agent.receiving import Receiver
from tests.support.servers.command_line import python
from tests.support.servers.nowhere import NOWHERE

ENDS = """
import os, signal, sys
import latencytrace

os.environ["OTEL_BSP_SCHEDULE_DELAY"] = "60000"  # nothing is sent before the end
latencytrace.instrument("ends", endpoint=sys.argv[1], hooks=("exits",))
pid = os.fork()
if not pid:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as servers do in their workers
    with latencytrace.stage("last"):
        pass
    END
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(code, latencytrace.agent_status().spans_dropped)
"""
LAST = 'with latencytrace.stage("last"): pass\n'
WAYS = {
    "os._exit(7)": 7,
    "signal.raise_signal(signal.SIGTERM)": -15,
    "os.execv(sys.executable, [sys.executable, '-Sc', 'raise SystemExit(5)'])": 5,
    "os.execlpe(sys.executable, sys.executable, '-Sc', 'raise SystemExit(5)', os.environ)": 5,
}


@pytest.mark.parametrize(
    ("end", "code"), WAYS.items(), ids=["_exit", "SIGTERM", "execv", "execlpe"]
)
def test_a_child_that_ends_at_once_sends_its_spans_first(
    receiver: Receiver, tmp_path: Path, end: str, code: int
) -> None:
    script = tmp_path / "ends.py"
    script.write_text(ENDS.replace("END", end))

    done = python(script, receiver.endpoint)

    assert done.stdout == f"{code} 0\n", done.stderr
    assert [span.name for span in receiver.spans] == ["last"]


FAILS = """
try:
    os.execv(sys.argv[2], ["no program"])
except OSError:
    pass
"""


@pytest.mark.parametrize("first", ["", "; exec(sys.argv[3])"], ids=["", "after one that fails"])
def test_what_nobody_takes_of_such_a_child_is_counted_once(tmp_path: Path, first: str) -> None:
    script = tmp_path / "ends.py"
    script.write_text(ENDS.replace("END", f"latencytrace.flush(0){first}; os._exit(7)"))

    done = python(script, NOWHERE, str(script), FAILS)

    assert done.stdout == "7 1\n", done.stderr


@pytest.mark.parametrize("program", ["ends.py", "absent"], ids=["not to be run", "absent"])
def test_a_process_whose_end_fails_reports_as_before(
    receiver: Receiver, tmp_path: Path, program: str
) -> None:
    script = tmp_path / "ends.py"
    flushes = "latencytrace.flush(60)\n" * 2  # the second one waits for the report of the first
    script.write_text(ENDS.split("pid = ", maxsplit=1)[0] + LAST + FAILS + flushes)

    python(script, receiver.endpoint, str(tmp_path / program))

    assert [span.name for span in receiver.spans] == ["last"]
    assert receiver.reports


def test_the_program_itself_is_ended_likewise(receiver: Receiver, tmp_path: Path) -> None:
    script = tmp_path / "ends.py"
    script.write_text(ENDS.replace("os.fork()", "0").replace("END", "os._exit(7)"))

    done = python(script, receiver.endpoint)

    assert (done.returncode, done.stderr) == (7, "")
    assert [span.name for span in receiver.spans] == ["last"]


BY_C = """
with latencytrace.stage("of the parent"):
    pass
pid = ctypes.CDLL(None).fork()
if not pid:
    os._exit(7)
"""


def test_a_child_that_python_does_not_know_of_has_nothing_of_its_parents(
    receiver: Receiver, tmp_path: Path
) -> None:
    script = tmp_path / "ends.py"
    before, after = ENDS.split("pid = os.fork()")
    after = after[after.index("code = ") :]
    script.write_text("import ctypes" + before + BY_C.strip() + "\n" + after)

    done = python(script, receiver.endpoint)

    assert (done.stdout, done.stderr) == ("7 0\n", "")
    assert [span.name for span in receiver.spans] == ["of the parent"]
