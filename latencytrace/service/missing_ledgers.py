"""The service checks itself: arrivals that the store has, and no ledger of."""

from collections.abc import Callable, Sequence
from typing import Final

from latencytrace.service.store import DamagedPart, Store

PACE_S: Final = 30.0  # between two looks
AFTER_S: Final = 60.0  # so old are the arrivals that are looked at


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
        self._store = store
        self._now_ns = now_ns
        self._time_of_day_ns = time_of_day_ns
        self._open_then: set[str] = set()  # traces that were open when they were looked at
        self._checked_ns = time_of_day_ns()
        self._next_ns = now_ns()

    def start(self) -> Sequence[str]:
        """Traces that an earlier process left undivided.

        Raises:
            StoreError: The store fails.
        """
        self.damaged_parts = self._store.damaged_parts()
        return self._store.unassembled()

    def found(self, is_open: Callable[[str], bool]) -> Sequence[str]:
        """Traces without a ledger; none if that was asked lately.

        Args:
            is_open: Whether spans of a trace have come that are not divided yet; such a trace
                is looked at again later.

        Raises:
            StoreError: The store fails; the same stretch is looked at later.
        """
        now_ns = self._now_ns()
        if now_ns < self._next_ns:
            return ()
        self._next_ns = now_ns + round(PACE_S * 1e9)
        until_ns = self._time_of_day_ns() - round(AFTER_S * 1e9)
        closed = {trace_id for trace_id in self._open_then if not is_open(trace_id)}
        written = {trace_id for trace_id, _ in self._store.revisions(closed)} if closed else set()
        found = closed - written
        if until_ns > self._checked_ns:
            found.update(self._store.without_ledger(self._checked_ns, until_ns))
        damaged_parts = self._store.damaged_parts()
        if damaged_parts != self.damaged_parts:  # ledgers may have gone with a part
            found.update(self._store.unassembled())
        self.damaged_parts = damaged_parts
        self._checked_ns = max(until_ns, self._checked_ns)
        open_now = {trace_id for trace_id in found if is_open(trace_id)}
        self._open_then = (self._open_then - closed) | open_now
        return sorted(found - open_now)
