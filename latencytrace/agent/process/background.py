"""Threads of ours: each a daemon, and outside of whatever request is under way where it begins.

A server that forks without telling Python, as uWSGI does, must not meet any: the child would
inherit whatever they hold, the interpreter's lock at worst. Until it has forked they wait.
"""

import threading
from collections.abc import Callable

from opentelemetry.context import Context, attach

from latencytrace.agent.context import leave
from latencytrace.agent.process.forks import in_child

_held: list[threading.Thread] | None = None  # those that wait; None: none has to


def background_thread(target: Callable[[], object], name: str) -> threading.Thread:
    """A thread that runs, or will once threads may."""
    thread = threading.Thread(target=target, name=name, daemon=True)
    if _held is None:
        _begin(thread)
    else:
        _held.append(thread)
    return thread


def join(thread: threading.Thread | None, timeout_s: float) -> None:
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
    """Let threads begin, those that wait first."""
    global _held
    held, _held = _held, None
    for thread in held or ():
        _begin(thread)


def _forget() -> None:
    """In a forked child: those that wait are the parent's, and are made anew here."""
    global _held  # noqa: PLW0603 - likewise
    if _held is not None:
        _held = []


def _begin(thread: threading.Thread) -> None:
    token = attach(Context())  # a hook carries the starter's request into threads: not here
    try:
        thread.start()
    finally:
        leave(token)


in_child(_forget)
