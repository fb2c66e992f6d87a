"""The interpreter's own threads and locks, whatever gevent or eventlet has put in their place.

Theirs switch to other greenlets where they wait. Ours must not: in a signal's handler, between
a fork and the child's first step, or where no greenlet gives way, nothing would go on.
"""

import _thread
import sys
from collections.abc import Callable
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


def has_greenlets() -> bool:
    """Tell whether threads that the program starts are greenlets by now."""
    return _thread.start_new_thread is not start_thread
