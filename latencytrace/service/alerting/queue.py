"""What waits to be sent to one sink: in order for each alert, bounded, tried again later."""

from collections.abc import Callable, Iterable

from latencytrace.service.sink import Notice, Transition

MOST_WAITING = 1000
FIRST_PAUSE_NS, LONGEST_PAUSE_NS = 10**9, 300 * 10**9
GIVE_UP_NS = 24 * 3600 * 10**9


class SinkQueue:
    """Notices of one sink. It is told the time and locks nothing: its owner does.

    Args:
        chance: A number between 0 and 1, so that not all try again at once.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._waiting: list[Notice] = []
        self._tries: dict[str, int] = {}
        self._not_before: dict[str, int] = {}
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, notices: Iterable[Notice]) -> list[Notice]:
        """Let notices wait.

        An alert that begins again must not be ended by what is left of its last end.

        Returns:
            Those that need not be sent any more.
        """
        obsolete = []
        for notice in notices:
            if notice.transition is Transition.BEGAN:
                copies = filter(is_copy, self._waiting)
                obsolete += [other for other in copies if other.about == notice.about]
            self._waiting.append(notice)
        obsolete += self._waiting[: max(0, len(self._waiting) - MOST_WAITING)]
        self.dropped += max(0, len(self._waiting) - MOST_WAITING)
        for notice in obsolete:
            self.sent(notice)
        return obsolete

    def has(self, about: str) -> bool:
        """Whether something about an alert waits."""
        return any(notice.about == about for notice in self._waiting)

    def due(self, now_ns: int) -> Notice | None:
        """What is to be sent now; of each alert only the first that waits."""
        seen: set[str] = set()
        for notice in self._waiting:
            if notice.about not in seen and self._at_ns(notice) <= now_ns:
                return notice
            seen.add(notice.about)
        return None

    def sent(self, notice: Notice) -> None:
        """It need not be sent any more."""
        if notice in self._waiting:
            self._waiting.remove(notice)
        self._tries.pop(notice.key, None)
        self._not_before.pop(notice.key, None)

    def failed(self, notice: Notice, now_ns: int) -> bool:
        """Try it again later.

        Returns:
            False: no more, for it has failed for a day.
        """
        if now_ns - notice.due_ns > GIVE_UP_NS:
            self.dropped += 1
            self.sent(notice)
            return False
        tries = self._tries.get(notice.key, 0)
        self._tries[notice.key] = tries + 1
        pause_ns = min(FIRST_PAUSE_NS << min(tries, 30), LONGEST_PAUSE_NS)
        self._not_before[notice.key] = now_ns + round(pause_ns * (0.5 + self._chance() / 2))
        return True

    def _at_ns(self, notice: Notice) -> int:
        return max(notice.due_ns, self._not_before.get(notice.key, 0))


def is_copy(notice: Notice) -> bool:
    """Whether a notice says once more that an alert has ended."""
    return ":ended:" in notice.key
