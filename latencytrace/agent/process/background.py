"""Threads of ours: each a daemon, and outside of whatever request is under way where it begins.

Where the program's threads are greenlets, ours are the interpreter's still: they run whatever
the program's do, and no fork's child has to switch between greenlets to begin one.

A server that forks without telling Python, as uWSGI does, must not meet any: the child would
inherit whatever they hold, the interpreter's lock at worst. Until it has forked they wait.
"""

import threading
from collections.abc import Callable

from opentelemetry.context import Context, attach

from latencytrace.agent.context import leave
from latencytrace.agent.native import (
    Lock,
    has_greenlets,
    signals_left_to_the_program,
    start_thread,
)
from latencytrace.agent.process.forks import in_child

_held: list["BackgroundThread"] | None = None  # threads that wait to begin; None: none has to


class _NativeThread:
    """A thread of the interpreter's own, that `threading` knows nothing of."""

    def __init__(self, target: Callable[[], object]) -> None:
        self._target = target
        self._running = Lock()

    def start(self) -> None:
        """Begin."""
        self._running.acquire()
        start_thread(self._run, ())

    def is_alive(self) -> bool:
        """Tell whether it runs."""
        return self._running.locked()

    def join(self, timeout: float) -> None:
        """Wait for its end, for so many seconds."""
        if self._running.acquire(timeout=timeout):
            self._running.release()

    def _run(self) -> None:
        try:
            self._target()
        finally:
            self._running.release()


class _Thread(threading.Thread):
    """A thread that begins as such, and may end after gevent has patched what counts threads."""

    start = threading.Thread.start  # as it was when the agent started

    def _delete(self) -> None:
        try:
            super()._delete()  # type: ignore[misc]  # which is what ends it
        except KeyError:
            threading._active.pop(self.ident, None)  # type: ignore[attr-defined]


BackgroundThread = threading.Thread | _NativeThread


def background_thread(target: Callable[[], object], name: str) -> BackgroundThread:
    """A thread that runs, or will once threads may."""
    thread: BackgroundThread
    if has_greenlets():
        thread = _NativeThread(target)
    else:
        thread = _Thread(target=target, name=name, daemon=True)
    if _held is None:
        _begin(thread)
    else:
        _held.append(thread)
    return thread


def join(thread: BackgroundThread | None, timeout_s: float) -> None:
    """Wait for a thread to end, if it ever began."""
    if thread is not None and thread.is_alive():
        thread.join(timeout_s)


def are_held() -> bool:
    """Tell whether threads wait for a fork."""
    return _held is not None


def hold() -> None:
    """Let no thread begin from now on."""
    global _held  # noqa: PLW0603 - one list a process
    if _held is None:
        _held = []


def let_go() -> None:
    """Let threads begin, waiting ones first."""
    global _held
    held, _held = _held, None
    for thread in held or ():
        _begin(thread)


def _forget() -> None:
    """In a forked child: the waiting threads are the parent's, and are made anew here."""
    global _held  # noqa: PLW0603 - likewise
    if _held is not None:
        _held = []


def _begin(thread: BackgroundThread) -> None:
    token = attach(Context())  # a hook carries the starter's request into threads: not here
    try:
        with signals_left_to_the_program():
            thread.start()
    finally:
        leave(token)


in_child(_forget)
