"""Whether requests stand for several, for their senders recorded a share of all."""

from collections.abc import Callable, Mapping
from typing import Final

from latencytrace.service.sql.counting import ANY_WEIGHT

LOOK_NS: Final = 60 * 10**9  # between two looks at what others wrote
ALL_NS: Final = 10 * LOOK_NS  # likewise, at all rows: those moved here say that they are old
_MARGIN_NS: Final = 10 * 60 * 10**9  # by which their clocks may differ, and writing take time


class Weights:
    """Finds out whether any request has a weight: then questions count by it.

    Args:
        ask: Answers a question in a format.
        now_ns: The time of day.
        alone: No other service writes to the tables.
    """

    def __init__(
        self,
        ask: Callable[[str, str, Mapping[str, object]], bytes],
        now_ns: Callable[[], int],
        *,
        alone: bool,
    ) -> None:
        self._ask = ask
        self._now_ns = now_ns
        self._alone = alone
        self._found = False
        self._looked_ns: int | None = None
        self._looked_at_all_ns: int | None = None

    def note(self) -> None:
        """Note that one is written."""
        self._found = True

    def found(self) -> bool:
        """Return whether there is one; what was found once holds until the next start."""
        looked_ns, now_ns = self._looked_ns, self._now_ns()
        is_known = looked_ns is not None and (self._alone or abs(now_ns - looked_ns) < LOOK_NS)
        if not self._found and not is_known:
            all_ns = self._looked_at_all_ns
            at_all = all_ns is None or abs(now_ns - all_ns) >= ALL_NS
            since_ns = 0 if at_all or looked_ns is None else looked_ns - _MARGIN_NS
            if int(self._ask(ANY_WEIGHT, "TSV", {"since": since_ns})):
                self._found = True  # and never taken back: one may be noted meanwhile
            self._looked_ns = now_ns
            if at_all:
                self._looked_at_all_ns = now_ns
        return self._found
