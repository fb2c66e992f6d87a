"""Lets more spans in, or not: by how long it takes to attribute the spans that are here.

What is let in is to be read soon after its last span. So not its bytes are bounded but the work
that it is, by the pace of the latest batches. No thread, no I/O.
"""

from collections.abc import Callable
from typing import Final

WORK_S: Final = 2.25  # of spans of traces with their root: one second of it each is quiet
BATCH_S: Final = 3.0  # that one batch takes, or waits for others, after which no more is let in
FIRST_RATE: Final = 10_000.0  # spans a second, until a large batch tells
LEAST_BYTES: Final = 8 * 1024 * 1024  # of spans in memory, some 20 000; fewer are soon attributed


class Admission:
    """The pace at which spans are attributed, and how many more may come.

    Args:
        now_ns: A clock that is never set back.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._rate: float | None = None
        self._busy_ns: int | None = None  # since when a batch is attributed
        self._since_ns: int | None = None  # what follows a batch at once is timed from its end

    def begin(self) -> None:
        """Take note that a batch is begun."""
        self._busy_ns = self._now_ns()
        if self._since_ns is None:
            self._since_ns = self._busy_ns

    def end(self, span_count: int, *, is_large: bool) -> None:
        """Take note that it is attributed.

        Args:
            is_large: Large enough to estimate throughput.
        """
        now_ns = self._now_ns()
        took_s = (now_ns - (now_ns if self._since_ns is None else self._since_ns)) / 1e9
        if is_large and took_s > 0:
            rate = span_count / took_s
            self._rate = rate if self._rate is None else (self._rate + rate) / 2
        self._busy_ns, self._since_ns = None, now_ns

    def rest(self) -> None:
        """Take note that no batch follows the last one at once."""
        self._since_ns = None

    def has_room(self, work: int, held_bytes: int, late_ns: int = 0) -> bool:
        """Tell whether more may come.

        Args:
            work: Spans that can be attributed soon.
            held_bytes: Of all spans in memory.
            late_ns: How long what was taken last has waited for its batch.
        """
        if held_bytes <= LEAST_BYTES:
            return True
        if late_ns > BATCH_S * 1e9:
            return False
        busy_ns = self._busy_ns
        if busy_ns is not None and self._now_ns() - busy_ns > BATCH_S * 1e9:
            return False
        return work <= WORK_S * (FIRST_RATE if self._rate is None else self._rate)
