"""The service checks itself: arrivals that the store has, and no ledger, or half of one."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from latencytrace.service.store import DamagedPart, Store

PACE_S: Final = 30.0  # between two looks
AFTER_S: Final = 60.0  # so old are the arrivals that are looked at
SPLIT_LOOKS_S: Final = (12.0, 90.0)  # after a trace without its root was attributed, each
MOST_ROOTLESS: Final = 20_000  # of such traces that are remembered, waiting or mended
TOGETHER_S: Final = 1.0  # so close to each other they are looked for together
FAILED_S: Final = 10.0  # after the store could not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Traces that are to be attributed."""

    without_ledger: Sequence[str] = ()  # though their root came long ago
    lost_ledger: Sequence[str] = ()  # with a part of the store, or that more spans came for
    split: Sequence[str] = ()  # of which another service has spans


class SplitTraces:
    """Traces whose root never came here: of several services on one store, another may have it.

    The spans of such a trace lie together in the store. Of its services one at least has no root:
    it looks whether others stored spans of the trace, and attributes it again from all of them.
    Nobody may have the root: a trace that was attributed again is only looked at once more.

    Args:
        store: What is asked.
        now_ns: A clock that is never set back.
    """

    def __init__(self, store: Store, now_ns: Callable[[], int]) -> None:
        self.count = 0  # traces that were split, and attributed again
        self._store = store
        self._now_ns = now_ns
        # For each look: when it is due, and at what, in this order.
        self._waiting: Sequence[deque[tuple[int, set[str]]]] = [deque() for _ in SPLIT_LOOKS_S]
        self._remembered = 0
        self._mended: dict[str, int] = {}  # traces: which look is the next, if any
        self._next_ns = now_ns()

    def rootless(self, trace_ids: Collection[str]) -> None:
        """Note traces that were attributed without their root, or for long in no store."""
        looks: list[set[str]] = [set() for _ in (*SPLIT_LOOKS_S, "none")]
        for trace_id in trace_ids:
            looks[self._mended.get(trace_id, 0)].add(trace_id)
        for look, wanted in enumerate(looks[:-1]):
            if wanted:
                self._look_at(wanted, look)
            self._mended.update(dict.fromkeys(wanted & self._mended.keys(), len(SPLIT_LOOKS_S)))

    def found(self, is_open: Callable[[str], bool]) -> Sequence[str]:
        """The traces that others have spans of, of those that are due.

        Raises:
            StoreError: The store fails; it is asked again a while later.
        """
        now_ns = self._now_ns()
        split: dict[str, int] = {}  # and their next look
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
        closed = sorted(one for one in split if not is_open(one))  # what is open is read anyway
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
    """Asks the store for traces whose root has long arrived and which have no request.

    There are none, unless something is wrong: each stretch of time is looked at once.

    Args:
        store: What is asked.
        now_ns: A clock that is never set back.
        time_of_day_ns: The clock that arrivals are stamped by.
    """

    def __init__(
        self, store: Store, now_ns: Callable[[], int], time_of_day_ns: Callable[[], int]
    ) -> None:
        self.damaged_parts: Sequence[DamagedPart] = ()  # of the store, that were set aside
        self.split = SplitTraces(store, now_ns)
        self._store = store
        self._now_ns = now_ns
        self._time_of_day_ns = time_of_day_ns
        self._open_then: set[str] = set()  # traces that were open when they were looked at
        self._checked_ns = time_of_day_ns()
        self._next_ns = now_ns()

    def start(self) -> Sequence[str]:
        """Traces that an earlier process left without a ledger.

        Raises:
            StoreError: The store fails.
        """
        self.damaged_parts = tuple(self._store.damaged_parts())
        self.split.rootless(self._store.rootless_lately())
        return self._store.unassembled()

    def found(self, is_open: Callable[[str], bool]) -> Found:
        """Traces without a ledger; none if that was asked lately.

        Args:
            is_open: Whether spans of a trace have come that are not attributed yet; such a trace
                is looked at again later.

        Raises:
            StoreError: The store fails; the same stretch is looked at later.
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
        # Asked once more: some were attributed between the question and now.
        written = {trace_id for trace_id, _ in self._store.revisions(closed)} if closed else set()
        damaged_parts = tuple(self._store.damaged_parts())
        lost: set[str] = set()
        if damaged_parts != self.damaged_parts:  # ledgers may have gone with a part
            lost.update(one for one in self._store.unassembled() if not is_open(one))
        self.damaged_parts = damaged_parts
        self._checked_ns = max(until_ns, self._checked_ns)
        self._open_then = open_now
        return Found(without_ledger=sorted(closed - written - lost), lost_ledger=sorted(lost))
