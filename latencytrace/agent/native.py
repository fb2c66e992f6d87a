"""The interpreter's own threads, locks, files and sockets, whatever stands in their place.

Those of gevent and eventlet switch to other greenlets where they wait. Ours must not: in a
signal's handler, between a fork and the child's first step, or where no greenlet gives way,
nothing would go on. A program's tests put others in the place of `Path.open`, `open`, `socket`
or `Thread.start`, and count their calls: ours must not be among them.

So the agent takes these from here, where they are bound once, as it starts (time: `clock.py`), or
from the module in C below (`_socket`), which nothing replaces.
"""

import _thread
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final


def native(module: str, name: str) -> Any:
    """Return what a module of the standard library has by itself."""
    gevent, eventlet = map(sys.modules.get, ("gevent.monkey", "eventlet.patcher"))
    if gevent is not None:
        return gevent.get_original(module, name)
    if eventlet is not None:
        return getattr(eventlet.original(module), name)
    return getattr(import_module(module), name)


Lock: Final[Callable[[], _thread.LockType]] = native("_thread", "allocate_lock")
RLock: Final[Callable[[], Any]] = native("_thread", "RLock")
get_ident: Final[Callable[[], int]] = native("_thread", "get_ident")
sleep: Final[Callable[[float], None]] = native("time", "sleep")
start_thread: Final[Callable[[Callable[[], object], tuple[()]], int]] = native(
    "_thread", "start_new_thread"
)

# But those of a fault in the thread itself, which end the process where they are blocked.
_HELD: Final = frozenset(signal.valid_signals()) - {
    getattr(signal, name, None) for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT")
}


def signals_held(held: Collection[int]) -> set[int | signal.Signals]:
    """Hold signals back from this thread; return its mask, to be set again.

    What the program does at another signal may raise here: then none is held.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, held)
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise
    return mask


@contextmanager
def signals_left_to_the_program() -> Iterator[None]:
    """Have the threads that are started in this block take no signal.

    A program that blocks one in all of its threads, to wait for it or to finish something first,
    would get it in ours: by default it ends the process.
    """
    if sys.platform == "win32":
        yield
        return
    before = signals_held(_HELD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


open_file: Final = open


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Return what is in a file.

    Raises:
        OSError: It cannot be read.
    """
    with open_file(path, "rb") as file:
        return file.read()


def has_greenlets() -> bool:
    """Tell whether threads that the program starts are greenlets by now."""
    return _thread.start_new_thread is not start_thread
