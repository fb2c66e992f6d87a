"""A traced program whose children record spans and end in one way, for `tests.stress.children`.

`ended_children.py KIND CHILDREN`, or `ended_children.py work` for a child that is a command.
"""

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, Final

import latencytrace
from tests.stress.ended_program import context_of

NAME: Final = "of a child"
SPANS: Final = 50  # of each child
METHODS: Final = ("fork", "forkserver", "spawn")


def work(_: int = 0) -> None:
    """Record spans."""
    for _ in range(SPANS):
        with latencytrace.stage(NAME):
            pass


def _forked(end: Callable[[], object], children: int) -> None:
    for _ in range(children):
        pid = os.fork()
        if not pid:
            work()
            end()
        os.waitpid(pid, 0)


def _terminated(children: int) -> None:
    for _ in range(children):
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            work()
            os.write(write, b"done")
            time.sleep(60)
        os.read(read, 1)
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


def _as_a_worker() -> None:
    """End as uvicorn does where gunicorn has loaded the application before it forked."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTERM)


def _processes(method: str, children: int) -> None:
    for _ in range(children):
        process = context_of(method).Process(target=work)
        process.start()
        process.join()


def _recycled(method: str, children: int) -> None:
    with context_of(method).Pool(2, maxtasksperchild=1) as pool:
        pool.map(work, range(children), 1)
        pool.close()
        pool.join()


def _left(method: str, children: int) -> None:
    with context_of(method).Pool(2) as pool:
        pool.map(work, range(children), 1)


def _executor(method: str, children: int) -> None:
    with ProcessPoolExecutor(2, mp_context=context_of(method)) as pool:
        list(pool.map(work, range(children)))


def _joblib(children: int) -> None:
    joblib: Any = importlib.import_module("joblib")
    joblib.Parallel(2)(joblib.delayed(work)(number) for number in range(children))


def _commands(children: int) -> None:
    for _ in range(children):
        subprocess.run([sys.executable, __file__, "work"], check=True)


KINDS: Final[dict[str, Callable[[int], object]]] = {
    "fork, sys.exit": partial(_forked, sys.exit),
    "fork, os._exit": partial(_forked, partial(os._exit, 0)),
    "fork, execv": partial(_forked, partial(os.execv, "/bin/true", ["true"])),
    "fork, a signal of its own": partial(_forked, _as_a_worker),
    "fork, SIGTERM": _terminated,
    **{f"process, {one}": partial(_processes, one) for one in (*METHODS, "billiard")},
    **{f"pool, recycled, {one}": partial(_recycled, one) for one in (*METHODS, "billiard")},
    **{f"pool, terminated, {one}": partial(_left, one) for one in (*METHODS, "billiard")},
    **{f"executor, {one}": partial(_executor, one) for one in METHODS},
    "joblib": _joblib,
    "command": _commands,
}


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work()
    else:
        with latencytrace.stage("of the parent"):
            KINDS[sys.argv[1]](int(sys.argv[2]))
        sys.stdout.write(f"{latencytrace.agent_status().spans_dropped}\n")
