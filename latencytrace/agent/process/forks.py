"""Forks of this process: what begins anew in the child, and imports that none comes into.

A fork takes one thread along. What another one was importing stays half imported in the child
for ever, so that code that needs the module there meets a "partially initialized" one.
"""

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import mmap
from typing import Any, Final

from latencytrace.agent.guard import logger
from latencytrace.agent.native import RLock, get_ident
from latencytrace.agent.process.imports import after_import

LONGEST_WAIT_S = (
    2.0  # of a fork: an importing thread may itself wait for what the forking one holds
)

_in_child: list[Callable[[], None]] = []
_pid = os.getpid()  # of the process that everything is made for


class WholeImports:
    """Have what a background thread imports under the lock imported whole before a fork."""

    def __init__(self) -> None:
        self.lock = RLock()
        self._forking: set[int] = set()  # threads that hold the lock for a fork

    def before_fork(self) -> None:
        """Wait for an import that is under way, but not for ever."""
        if self.lock.acquire(timeout=LONGEST_WAIT_S):
            self._forking.add(get_ident())

    def after_fork(self) -> bool:
        """Let imports go on; whether they had been waited for."""
        thread = get_ident()
        if thread not in self._forking:
            return False
        self._forking.discard(thread)
        self.lock.release()
        return True

    def after_fork_in_child(self) -> None:
        """Let imports go on, also where the thread that was at one did not come along."""
        if not self.after_fork():
            self.lock = RLock()
        self._forking.clear()


whole_imports = WholeImports()


def in_child(begin_anew: Callable[[], None]) -> None:
    """Call a function in each forked child, in the order in which they were named."""
    _in_child.append(begin_anew)


def notice_fork() -> bool:
    """Begin anew if this is the child of a fork that Python does not know of.

    Returns:
        Whether it is.
    """
    if os.getpid() == _pid:
        return False
    _begin_anew()
    return True


def renew() -> None:
    """Have every lock of ours made anew, as in a child: something else may stand in its place."""
    whole_imports.after_fork_in_child()
    _begin_anew()


def _begin_anew() -> None:
    global _pid  # noqa: PLW0603 - one number a process
    _pid = os.getpid()
    for begin_anew in _in_child:
        begin_anew()


os.register_at_fork(
    before=whole_imports.before_fork,
    after_in_parent=whole_imports.after_fork,
    after_in_child=whole_imports.after_fork_in_child,
)
os.register_at_fork(after_in_child=_begin_anew)


_COUNT: Final = struct.Struct("=Q")
_PLACES: Final = 512  # a child has one to itself, so that none overwrites what another counts


class ChildLosses:
    """A count in memory that a process shares with its forked children, and theirs."""

    def __init__(self) -> None:
        self._memory: mmap | None = None  # None: it has not forked yet
        self._pid = os.getpid()
        self._noted_in: int | None = None  # a process
        self._noted = 0  # as lost at its end

    @property
    def are_noted(self) -> bool:
        """Tell whether those of this process are, which ends then."""
        return self._noted_in == os.getpid()

    def before_fork(self) -> None:
        """Have the memory that the child is to share."""
        if self._memory is None:
            self._memory, self._pid = mmap(-1, _PLACES * _COUNT.size), os.getpid()

    def note(self, spans: int, receiver: str, error: str | None) -> None:
        """Count spans still unsent at the end of this process; log them unless it is a child."""
        self._noted_in, self._noted = os.getpid(), spans
        if spans and not self.add(spans):
            why = error or "it has not answered"
            text = "latencytrace: %d spans that %s did not take before the end are lost: %s"
            logger.warning(text, spans, receiver, why)

    def take_back(self) -> None:
        """Count nothing of that: this process goes on, and may send them yet."""
        if self.are_noted:
            self.add(-self._noted)
            self._noted_in = None

    def add(self, spans: int) -> bool:
        """Count spans that this process could not send, if it is a child; return whether it is."""
        if self._memory is None or os.getpid() == self._pid:
            return False
        place = os.getpid() % _PLACES * _COUNT.size
        (before,) = _COUNT.unpack_from(self._memory, place)
        _COUNT.pack_into(self._memory, place, before + spans)
        return True

    @property
    def spans(self) -> int:
        """Return how many children could not send; 0 in a child."""
        if self._memory is None or os.getpid() != self._pid:
            return 0
        return sum(count for (count,) in _COUNT.iter_unpack(self._memory))


_LAST = -1000  # of a child's finalizers
_ends: list[tuple[Callable[[], None], Callable[[], None]]] = []


def at_end_of_children(flush: Callable[[], None]) -> None:
    """Call `flush` last in each child, should the program ever import multiprocessing."""

    def on_import(multiprocessing_util: Any) -> None:
        def in_child(flush: Callable[[], None]) -> None:
            multiprocessing_util.Finalize(None, flush, exitpriority=_LAST)

        multiprocessing_util.register_after_fork(flush, in_child)
        process = multiprocessing_util.process
        is_begun_child = process.parent_process() is not None
        if is_begun_child and process.current_process()._start_method != "spawn":
            in_child(flush)  # a spawned one ends as any program

    after_import("multiprocessing.util", on_import)


def before_ends_at_once(send: Callable[[], None], go_on: Callable[[], None]) -> None:
    """Have functions called in a process that ends without what Python does at an exit.

    Args:
        send: Called before.
        go_on: Called where the process goes on all the same.
    """
    _ends.append((send, go_on))


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Make those calls around what ends the process, or fails to."""
    notice_fork()
    for send, _ in _ends:
        send()
    try:
        yield
    finally:
        for _, go_on in _ends:
            go_on()
