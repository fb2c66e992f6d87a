"""A program of greenlets, which prints what became of its calls.

`greenlet_program.py gevent|eventlet patched-first|patched-last|unpatched RECEIVER`
"""

import importlib
import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

own: ContextVar[str] = ContextVar("own", default="nothing")
found: list[str] = []


def by_gevent(work: Callable[[str], None]) -> None:
    gevent, pool = importlib.import_module("gevent"), importlib.import_module("gevent.pool")
    threads = importlib.import_module("gevent.threadpool")
    gevent.spawn(work, "spawn").get()
    gevent.spawn_later(0, work, "spawn_later").get()
    pool.Pool(2).map(work, ["a pool"])
    gevent.spawn_raw(work, "spawn_raw")
    gevent.sleep(0.01)
    threads.ThreadPool(1).apply(work, ("a pool of threads",))
    threads.ThreadPoolExecutor(1).submit(work, "an executor").result()


def by_eventlet(work: Callable[[str], None]) -> None:
    eventlet, threads = map(importlib.import_module, ("eventlet", "eventlet.tpool"))
    eventlet.spawn(work, "spawn").wait()
    eventlet.spawn_after(0, work, "spawn_later").wait()
    list(eventlet.GreenPool(2).imap(work, ["a pool"]))
    eventlet.spawn_n(work, "spawn_raw")
    eventlet.sleep(0.01)
    threads.execute(work, "a pool of threads")
    threads.execute(work, "an executor")


LIBRARIES: dict[str, tuple[str, str, Callable[[Callable[[str], None]], None]]] = {
    "gevent": ("gevent.monkey", "patch_all", by_gevent),
    "eventlet": ("eventlet", "monkey_patch", by_eventlet),
}


def main(library: str, order: str, receiver: str) -> None:
    """Patch and trace in that order; make greenlets within a request, and after uninstrument()."""
    agent: Any = importlib.import_module("latencytrace")
    module, patch, calls = LIBRARIES[library]
    if order == "patched-first":
        getattr(importlib.import_module(module), patch)()
    agent.instrument("program", endpoint=receiver)
    if order == "patched-last":
        getattr(importlib.import_module(module), patch)()

    def work(name: str) -> None:
        found.append(own.get())
        with agent.stage(name):
            pass

    def thread() -> None:
        with agent.stage("a thread"):
            pass

    own.set("the program's")
    with agent.request("request"):
        calls(work)
        worker = threading.Thread(target=thread)
        worker.start()
        worker.join()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
    sent = agent.flush(60)
    faults = agent.agent_status().faults
    agent.uninstrument()
    calls(found.append)
    sys.stdout.write(f"{sent} {faults} {sorted({str(one) for one in found})}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
