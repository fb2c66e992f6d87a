"""Sends the last spans of a process that SIGTERM ends."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

from latencytrace.agent.compiled.core import core
from latencytrace.agent.guard import contained
from latencytrace.agent.native import (
    get_ident,
    signals_held,
    signals_left_to_the_program,
    sleep,
    start_thread,
)
from latencytrace.agent.process.name import is_multiprocessings
from latencytrace.agent.process.wake import Wake

_SIGTERM: Final = frozenset({signal.SIGTERM})
# The handler waits so long, then lets the code go on that it interrupted, and comes again.
_WAITS_S: Final = (0.05, 0.1, 0.3)
_GOES_ON_S: Final = 0.001


class Termination:
    """Sends the last spans of a process that SIGTERM would end at once.

    Only where the program leaves the signal alone: with a handler of its own it ends as it
    likes, and its exit sends them. Afterwards the process ends by the signal as it would have.

    The spans are sent by other threads, while the handler keeps the main thread from going on.
    Those threads may need a lock that the interrupted code holds, of logging or of an import
    say. So the handler waits for a short while only, and lets that code run for a moment before
    it waits again.

    Python runs no handler while a call in C computes, nor while one blocks that the signal came
    just before: a worker that is ended soon after its start would never end. So the compiled
    core watches for the signal, too, and ends the process wherever its threads are. Without it
    only the process that began the program takes the signal, no child of its.

    Args:
        flush: Sends what waits, within a bounded time.
        longest_s: The longest delay of the process's end, in seconds.
    """

    def __init__(self, flush: Callable[[], object], longest_s: float) -> None:
        self._flush = contained("sending the last spans")(flush)
        self._longest_s = longest_s
        self._handler = self._terminate  # one object, to be recognised by
        self._masks: dict[int, set[int | signal.Signals]] = {}  # by the thread that forks
        self._begin()

    def _begin(self) -> None:
        self._pid, self._main = os.getpid(), get_ident()
        self._sent = Wake()
        self._waits: Iterator[float] | None = None  # None: no signal has come
        self._is_waiting = False

    def expect(self) -> None:
        """Take the signal, if the program has not and this is the main thread."""
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._main = get_ident()
            signal.signal(signal.SIGTERM, self._handler)
            if not self._watch() and is_multiprocessings(sys.orig_argv):
                self.forget()

    def forget(self) -> None:
        """Leave the signal to its default again, unless the program has taken it.

        If it has come, the process ends here: what it could send is sent.
        """
        main = threading.current_thread() is threading.main_thread()
        if main and self._is_expected():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if core is not None and core.has_sigterm_come():
                os.kill(os.getpid(), signal.SIGTERM)

    def before_fork(self) -> None:
        """Have a child that is terminated while it is made end, and one that waits in C.

        CPython clears what comes to a child before its first step, as if it had come to the
        parent. The compiled core ends such a child. Where there is none, the signal is held back
        until the child is ready for it.
        """
        if self._is_expected() and (core is None or not core.keep_sigterm()):
            self._masks[get_ident()] = signals_held(_SIGTERM)

    def after_fork(self) -> None:
        """Let the signal come again, in the thread that forked."""
        mask = self._masks.pop(get_ident(), None)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def after_fork_in_child(self) -> None:
        """Leave the signal to its default, before it comes, until there is something to send."""
        self._begin()
        if core is None:
            self.forget()
        mask = self._masks.get(get_ident())
        self._masks = {}
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    @contained("expecting SIGTERM")
    def begin_in_child(self) -> None:
        """Take the signal from now on; called on any thread of a child."""
        if self._is_expected():
            self._watch()

    def _is_expected(self) -> bool:
        return signal.getsignal(signal.SIGTERM) is self._handler

    def _watch(self) -> bool:
        """Have the signal noticed wherever the program is; False: nothing is compiled for it."""
        return core is not None and bool(core.watch_sigterm(self._send, self._longest_s))

    def _terminate(self, number: int, _: FrameType | None) -> None:
        if self._is_waiting:  # it came again meanwhile
            return
        self._is_waiting, goes_on = True, False
        try:
            goes_on = bool(contained("sending the last spans")(self._wait_or_go_on)())
        finally:  # whatever happens, and whichever signal comes now: the process is to end
            self._is_waiting = False
            if not goes_on:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)

    def _wait_or_go_on(self) -> bool:
        """Wait until the last spans are sent; tell whether the program runs on for a moment."""
        if os.getpid() != self._pid:  # forked without telling Python: no thread came along
            return False
        if self._waits is None:
            self._waits = iter(_WAITS_S)
            if core is None or not core.has_sigterm_come():
                _start(self._send)
        wait_s = next(self._waits, None)
        if wait_s is None:
            self._sent.wait(self._longest_s - sum(_WAITS_S))
            return False
        if self._sent.wait(wait_s):
            return False
        _start(self._come_again)
        return True

    def _send(self) -> None:
        self._flush()
        self._sent.set()

    def _come_again(self) -> None:
        sleep(_GOES_ON_S)
        signal.pthread_kill(self._main, signal.SIGTERM)


def _start(target: Callable[[], object]) -> None:
    with signals_left_to_the_program():
        start_thread(target, ())
