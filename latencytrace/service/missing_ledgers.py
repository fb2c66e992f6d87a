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
        self._checked_ns = time_of_day_ns()
        self._next_ns = now_ns()

    def start(self) -> Sequence[str]:
        """Traces that an earlier process left undivided.

        Raises:
            StoreError: The store fails.
        """
        self.damaged_parts = self._store.damaged_parts()
        return self._store.unassembled()

    def found(self) -> Sequence[str]:
        """Traces without a ledger; none if that was asked lately.

        Raises:
            StoreError: The store fails; the same stretch is looked at later.
        """
        now_ns = self._now_ns()
        if now_ns < self._next_ns:
            return ()
        self._next_ns = now_ns + round(PACE_S * 1e9)
        until_ns = self._time_of_day_ns() - round(AFTER_S * 1e9)
        found: list[str] = []
        if until_ns > self._checked_ns:
            found += self._store.without_ledger(self._checked_ns, until_ns)
        damaged_parts = self._store.damaged_parts()
        if damaged_parts != self.damaged_parts:  # ledgers may have gone with a part
            found += self._store.unassembled()
        self.damaged_parts = damaged_parts
        self._checked_ns = max(until_ns, self._checked_ns)
        return found
