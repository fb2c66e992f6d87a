"""A program that SIGTERM ends sends its last spans, and ends as without us."""

import subprocess
import sys
from pathlib import Path

import pytest

from latencytrace.agent.compiled.core import core
from tests.support.agent.receiving import Receiver
from tests.support.servers.command_line import environment, python
from tests.support.servers.nowhere import NOWHERE
from tests.support.waiting import PATIENCE_S

COMPILED = pytest.mark.skipif(
    core is None or not sys.platform.startswith("linux"),
    reason="what watches for the signal is compiled, and for Linux alone",
)
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


HOLDS_WHAT_THE_FLUSH_NEEDS = """
import os, signal, threading
from latencytrace.agent.process.termination import Termination

lock = threading.Lock()

def flush():
    with lock:
        os.write(1, b"sent")

Termination(flush, 40.0).expect()
with lock:
    os.kill(os.getpid(), signal.SIGTERM)
signal.pause()
"""
POOL = """
import multiprocessing, os, signal, sys
import latencytrace

os.environ["OTEL_BSP_SCHEDULE_DELAY"] = "60000"  # nothing is sent before the end
latencytrace.instrument("pool", endpoint=sys.argv[1])

def work(number):
    if sys.argv[3:] == ["default"]:
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with latencytrace.stage("task"):
        return number

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
        assert sum(pool.map(work, range(10), 1)) == 45
"""
FORKS = """
import os, signal, sys

def note_first_step():  # called before what latencytrace does in a child
    os.write(1, b"begins ")
    if "terminated" in sys.argv:
        os.kill(os.getpid(), signal.SIGTERM)

os.register_at_fork(after_in_child=note_first_step)
import latencytrace

latencytrace.instrument("forks", endpoint=sys.argv[1])
mine = signal.pthread_sigmask(signal.SIG_BLOCK, [getattr(signal, sys.argv[2])])
mine.add(getattr(signal, sys.argv[2]))
child = os.fork()
mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
if not child:
    os.write(1, b"on ")
    os._exit(int(mask != mine))
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(100 if mask != mine else code % 100)
"""


def test_what_the_flush_needs_of_the_interrupted_code_is_let_go_of(tmp_path: Path) -> None:
    script = tmp_path / "holds.py"
    script.write_text(HOLDS_WHAT_THE_FLUSH_NEEDS)

    done = python(script)

    assert (done.returncode, done.stdout) == (-15, "sent")


@pytest.mark.parametrize("compiled", ["1", "0"])
@pytest.mark.parametrize(
    ("masked", "terminated", "expected"),
    [
        ("SIGUSR1", "left alone", (0, "begins on ")),
        ("SIGTERM", "left alone", (0, "begins on ")),
        ("SIGUSR1", "terminated", (-15 % 100, "begins ")),
        ("SIGTERM", "terminated", (0, "begins on ")),  # the program itself holds it back
    ],
)
def test_a_child_that_is_terminated_while_it_is_made_ends(
    tmp_path: Path, masked: str, terminated: str, expected: tuple[int, str], compiled: str
) -> None:
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    env = environment(LATENCYTRACE_COMPILED=compiled)

    done = python(script, NOWHERE, masked, terminated, env=env)

    assert (done.returncode, done.stdout) == expected, done.stderr


WAITS_IN_C = """
import ctypes, os, signal, sys
import latencytrace

latencytrace.instrument("waits", endpoint=sys.argv[1])
signal.signal(signal.SIGTERM, signal.signal(signal.SIGTERM, signal.SIG_IGN))
hears, tells = os.pipe()
child = os.fork()
if not child:
    mutex = ctypes.create_string_buffer(64)
    ctypes.CDLL(None).pthread_mutex_lock(mutex)
    os.write(tells, b"!")
    ctypes.CDLL(None).pthread_mutex_lock(mutex)  # a thread waits for itself
os.read(hears, 1)
while open(f"/proc/{child}/stat").read().rpartition(") ")[2][0] != "S":
    pass
os.kill(child, signal.SIGTERM)
os.waitpid(child, 0)
"""


@COMPILED
def test_a_child_that_waits_in_c_ends_where_the_program_took_the_signal_and_gave_it_back(
    tmp_path: Path,
) -> None:
    script = tmp_path / "waits.py"
    script.write_text(WAITS_IN_C)

    assert python(script, NOWHERE).returncode == 0


INTERRUPTS = """
import signal
from latencytrace.agent.native import signals_held

raised = 0

def interrupt(_, frame):
    global raised
    if frame.f_code is signals_held.__code__:
        raised += 1
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
while raised < 100:
    try:
        mask = signals_held([signal.SIGTERM])
    except KeyboardInterrupt:
        assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    else:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_no_signal_stays_held_where_what_the_program_does_at_another_one_raises(
    tmp_path: Path,
) -> None:
    script = tmp_path / "interrupts.py"
    script.write_text(INTERRUPTS)

    done = python(script)

    assert (done.returncode, done.stderr) == (0, "")


COMPUTES_IN_C = """
import ctypes, hashlib, os, sys
import latencytrace

latencytrace.instrument("computes", endpoint=sys.argv[1])
with latencytrace.stage("last"):
    pass
print("begins", flush=True)
if sys.argv[2] == "lets others run":
    hashlib.pbkdf2_hmac("sha256", b"", b"", (1 << 31) - 1)  # minutes
else:  # keeps the interpreter
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):  # a thread waits for itself
        ctypes.PyDLL(None).pthread_mutex_lock(mutex)
"""


@COMPILED
@pytest.mark.parametrize(
    ("way", "names"), [("lets others run", ["last"]), ("keeps the interpreter", [])]
)
def test_a_call_in_c_that_never_returns_does_not_keep_a_program_from_its_end(
    receiver: Receiver, tmp_path: Path, way: str, names: list[str]
) -> None:
    script = tmp_path / "computes.py"
    script.write_text(COMPUTES_IN_C)
    command = [sys.executable, str(script), receiver.endpoint, way]

    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        program.terminate()
        code = program.wait(PATIENCE_S)

    assert code == -15
    assert [span.name for span in receiver.spans] in (names, ["last"])


@COMPILED
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_workers_of_a_pool_that_is_terminated_send_their_last_spans(
    receiver: Receiver, tmp_path: Path, method: str
) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL)

    done = python(script, receiver.endpoint, method)

    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(span.name for span in receiver.spans if span.name == "task") == ["task"] * 10


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_workers_of_a_pool_end_by_themselves_where_nothing_is_compiled(
    receiver: Receiver, tmp_path: Path, method: str
) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL)

    done = python(
        script, receiver.endpoint, method, "default", env=environment(LATENCYTRACE_COMPILED="0")
    )

    assert (done.returncode, done.stderr) == (0, "")


FINISHES_SOMETHING_FIRST = """
import os, signal, threading
from pathlib import Path
from latencytrace.agent.process.termination import Termination

begun = threading.Event()
Termination(begun.wait, 40.0).expect()
os.kill(os.getpid(), signal.SIGTERM)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
begun.set()  # so that the last spans are sent
waiting = 0
while not waiting >> signal.SIGTERM - 1 & 1:  # the process is to end, as soon as it may
    lines = Path("/proc/self/status").read_text().splitlines()
    waiting = next(int(line.split()[1], 16) for line in lines if line.startswith("ShdPnd:"))
os.write(1, b"finished")
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
"""


@COMPILED
def test_what_a_program_finishes_before_it_lets_the_signal_come_is_finished(
    tmp_path: Path,
) -> None:
    script = tmp_path / "finishes.py"
    script.write_text(FINISHES_SOMETHING_FIRST)

    done = python(script)

    assert (done.returncode, done.stdout) == (-15, "finished")
