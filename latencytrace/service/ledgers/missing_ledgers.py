"""Finds traces in the store that should have a ledger and have none, or an incomplete one."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from latencytrace.service.store import DamagedPart, Store

PACE_S: Final = 30.0  # between two checks
AFTER_S: Final = 60.0  # age of the arrivals that are checked
SPLIT_LOOKS_S: Final = (12.0, 90.0)  # checks after a trace was attributed without its root
MOST_ROOTLESS: Final = 20_000  # such traces that are remembered
TOGETHER_S: Final = 1.0  # checks that are due within this time are one
FAILED_S: Final = 10.0  # pause after the store failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Traces that have to be attributed."""

    without_ledger: Sequence[str] = ()  # the root arrived long ago
    lost_ledger: Sequence[str] = ()  # lost with a damaged part of the store, or incomplete
    split: Sequence[str] = ()  # another service stored spans of it


class SplitTraces:
    """Traces whose spans went to several services that share one store.

    At least one of these services has no root of the trace. It checks whether the others stored
    spans of it, and attributes it again from all spans. There may be no root at all, so a trace
    that was attributed again is checked only once more.

    Args:
        now_ns: A monotonic clock.
    """

    def __init__(self, store: Store, now_ns: Callable[[], int]) -> None:
        self.count = 0  # split traces that were attributed again
        self._store = store
        self._now_ns = now_ns
        # For each check: when it is due, and of which traces, in this order.
        self._waiting: Sequence[deque[tuple[int, set[str]]]] = [deque() for _ in SPLIT_LOOKS_S]
        self._remembered = 0
        self._mended: dict[str, int] = {}  # by trace the number of its next check
        self._next_ns = now_ns()

    def rootless(self, trace_ids: Collection[str]) -> None:
        """Note traces that were attributed without their root."""
        looks: list[set[str]] = [set() for _ in (*SPLIT_LOOKS_S, "none")]
        for trace_id in trace_ids:
            looks[self._mended.get(trace_id, 0)].add(trace_id)
        for look, wanted in enumerate(looks[:-1]):
            if wanted:
                self._look_at(wanted, look)
            self._mended.update(dict.fromkeys(wanted & self._mended.keys(), len(SPLIT_LOOKS_S)))

    def found(self, is_open: Callable[[str], bool]) -> Sequence[str]:
        """Return the traces that are due and of which another service stored spans.

        Raises:
            StoreError: The store fails; it is asked again after `FAILED_S`.
        """
        now_ns = self._now_ns()
        split: dict[str, int] = {}  # the number of the next check
        for look, waiting in enumerate(self._waiting):
            while waiting and max(waiting[0][0], self._next_ns) <= now_ns:
                _, trace_ids = waiting[0]
                self._next_ns = now_ns + round(FAILED_S * 1e9)
                others = set(self._store.elsewhere(trace_ids))
                self._next_ns = now_ns
                waiting.popleft()
                self._remembered -= len(trace_ids)
                split.update(dict.fromkeys(others, look + 1))
                left = trace_ids - others
                if left and look + 1 < len(SPLIT_LOOKS_S):
                    self._look_at(left, look + 1)
        closed = sorted(one for one in split if not is_open(one))  # open ones are read anyway
        self.count += len(closed)
        for one in closed:
            self._mended.pop(one, None)
            self._mended[one] = split[one]
        while len(self._mended) > MOST_ROOTLESS:
            del self._mended[next(iter(self._mended))]
        return closed

    def _look_at(self, trace_ids: set[str], look: int) -> None:
        waiting = self._waiting[look]
        due_ns = self._now_ns() + round(SPLIT_LOOKS_S[look] * 1e9)
        if waiting and due_ns - waiting[-1][0] < TOGETHER_S * 1e9 and not look:
            due_ns, others = waiting.pop()
            self._remembered -= len(others)
            trace_ids |= others
        self._remembered += len(trace_ids)
        waiting.append((due_ns, trace_ids))
        while self._remembered > MOST_ROOTLESS and len(waiting) > 1:
            self._remembered -= len(waiting.popleft()[1])


class MissingLedgers:
    """Asks the store for traces that have a root and no request.

    There are none, unless something is wrong. Each stretch of time is checked once.

    Args:
        now_ns: A monotonic clock.
        time_of_day_ns: The clock of the arrivals' timestamps.
    """

    def __init__(
        self, store: Store, now_ns: Callable[[], int], time_of_day_ns: Callable[[], int]
    ) -> None:
        self.damaged_parts: Sequence[DamagedPart] = ()  # that the store detached
        self.split = SplitTraces(store, now_ns)
        self._store = store
        self._now_ns = now_ns
        self._time_of_day_ns = time_of_day_ns
        self._open_then: set[str] = set()  # traces that were open at the last check
        self._checked_ns = time_of_day_ns()
        self._next_ns = now_ns()

    def start(self) -> Sequence[str]:
        """Return the traces that an earlier process left without a ledger.

        Raises:
            StoreError: The store fails.
        """
        self.damaged_parts = tuple(self._store.damaged_parts())
        self.split.rootless(self._store.rootless_lately())
        return self._store.unassembled()

    def found(self, is_open: Callable[[str], bool]) -> Found:
        """Return traces without a ledger, if a check is due.

        Args:
            is_open: Returns whether a trace has spans that are not attributed yet. Such a trace
                is checked again later.

        Raises:
            StoreError: The store fails; the same stretch of time is checked later.
        """
        now_ns = self._now_ns()
        if now_ns < self._next_ns:
            return Found(split=self.split.found(is_open))
        self._next_ns = now_ns + round(PACE_S * 1e9)
        until_ns = self._time_of_day_ns() - round(AFTER_S * 1e9)
        looked_at = set(self._open_then)
        if until_ns > self._checked_ns:
            looked_at.update(self._store.without_ledger(self._checked_ns, until_ns))
        open_now = {trace_id for trace_id in looked_at if is_open(trace_id)}
        closed = looked_at - open_now
        # Some were attributed since the store was asked.
        written = {trace_id for trace_id, _ in self._store.revisions(closed)} if closed else set()
        damaged_parts = tuple(self._store.damaged_parts())
        lost: set[str] = set()
        if damaged_parts != self.damaged_parts:  # ledgers may be lost with a part
            lost.update(one for one in self._store.unassembled() if not is_open(one))
        self.damaged_parts = damaged_parts
        self._checked_ns = max(until_ns, self._checked_ns)
        self._open_then = open_now
        return Found(without_ledger=sorted(closed - written - lost), lost_ledger=sorted(lost))
