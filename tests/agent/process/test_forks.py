"""Forks beside threads of ours."""

import os
import threading
import time
from pathlib import Path

import pytest

from latencytrace.agent.process import background
from latencytrace.agent.process.forks import LONGEST_WAIT_S, WholeImports
from tests.support.servers.command_line import python
from tests.support.servers.nowhere import NOWHERE
from tests.support.waiting import PATIENCE_S

FORKING_IMPORTS = Path(__file__).parents[2] / "support" / "programs" / "forking_imports.py"
FORKS = 20
FORKING_WHILE_IT_CONNECTS = """
import os, signal, sys, threading, time
from latencytrace.agent.export.http import HttpSender

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "latencytrace.agent.export.http_connection" and not begun.is_set():
            begun.set()
            time.sleep(0.3)

def post():
    try:
        HttpSender(sys.argv[1], {}, 1.0).send(b"")
    except OSError as error:
        return str(error)

begun = threading.Event()
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=post)
thread.start()
begun.wait()
child = os.fork()
if not child:
    signal.alarm(30)  # it would wait for a thread that did not come along
    print(post(), flush=True)
    os._exit(0)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.timeout(240)  # a child that hangs is waited for
def test_a_child_meets_no_module_that_a_thread_was_importing() -> None:
    run = python(FORKING_IMPORTS, str(FORKS))

    assert run.stdout.split() == ["NvmlReader"] * FORKS, run.stdout + run.stderr


def test_a_child_connects_that_was_forked_while_a_thread_connected_first() -> None:
    run = python("-c", FORKING_WHILE_IT_CONNECTS, NOWHERE)

    assert (run.returncode, run.stdout) == (0, "[Errno 111] Connection refused\n"), run.stderr


def test_a_fork_waits_for_an_import_but_not_for_ever() -> None:
    imports, begun, over = WholeImports(), threading.Event(), threading.Event()

    def importing() -> None:
        with imports.lock:
            begun.set()
            over.wait()

    thread = threading.Thread(target=importing)
    thread.start()
    begun.wait()
    before_s = time.monotonic()
    imports.before_fork()
    waited_s = time.monotonic() - before_s
    imports.after_fork()

    over.set()
    thread.join()
    with imports.lock:  # it was left as it was
        pass
    assert waited_s > LONGEST_WAIT_S * 0.9


def test_threads_that_are_held_begin_once_they_may() -> None:
    ran = threading.Event()
    background.hold()
    thread = background.background_thread(ran.set, "held")
    began_early = thread.is_alive()

    background.let_go()

    thread.join(PATIENCE_S)
    assert ran.is_set()
    assert not began_early


def test_a_child_leaves_the_threads_to_its_parent_that_were_held() -> None:
    background.hold()
    thread = background.background_thread(lambda: None, "held")
    assert isinstance(thread, threading.Thread)
    child = os.fork()
    if not child:
        background.let_go()
        os._exit(0 if thread.ident is None else 1)

    _, status = os.waitpid(child, 0)
    background.let_go()
    thread.join(PATIENCE_S)

    assert status == 0
    assert thread.ident is not None


FIRST_FORK = """
import os, sys
import latencytrace
from latencytrace.agent.start import IN_CHILDREN

latencytrace.instrument("forks", endpoint=sys.argv[1])
assert not sys.modules.keys() & set(IN_CHILDREN)
child = os.fork()
if not child:
    os._exit(not set(IN_CHILDREN) <= sys.modules.keys())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_what_a_child_sends_with_is_loaded_once_before_the_first_fork(tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(FIRST_FORK)

    done = python("-W", "ignore::DeprecationWarning", script, NOWHERE)

    assert (done.returncode, done.stderr) == (0, "")
