"""Counts, for the process they come from, the spans that forked children could not send."""

import os
import struct
from mmap import mmap
from typing import Final

from latencytrace.agent.guard import logger

_COUNT: Final = struct.Struct("=Q")
_PLACES: Final = 512  # a child has one to itself, so that none overwrites what another counts


class ChildLosses:
    """A count in memory that a process shares with its forked children, and theirs."""

    def __init__(self) -> None:
        self._memory: mmap | None = None  # None: it has not forked yet
        self._pid = os.getpid()

    def before_fork(self) -> None:
        """Have the memory that the child is to share."""
        if self._memory is None:
            self._memory, self._pid = mmap(-1, _PLACES * _COUNT.size), os.getpid()

    def note(self, spans: int, receiver: str, error: str | None) -> None:
        """Count spans that nobody took by the end of this process; log them if it is no child."""
        if spans and not self.add(spans):
            why = error or "it has not answered"
            text = "latencytrace: %d spans that %s did not take before the end are lost: %s"
            logger.warning(text, spans, receiver, why)

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
