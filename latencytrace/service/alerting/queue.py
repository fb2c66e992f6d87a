"""Notifications that wait for one sink: in order for each alert, bounded, tried again later."""

from collections.abc import Callable, Iterable

from latencytrace.service.sink import Notification, Transition

MOST_WAITING = 1000
FIRST_PAUSE_NS, LONGEST_PAUSE_NS = 10**9, 300 * 10**9
GIVE_UP_NS = 24 * 3600 * 10**9


class SinkQueue:
    """Notifications of one sink. Its owner passes the time, and locks.

    Args:
        chance: A number between 0 and 1, so that not all try again at once.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._waiting: list[Notification] = []
        self._tries: dict[str, int] = {}
        self._not_before: dict[str, int] = {}
        self._paused_until_ns = 0  # the receiver asked for it
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, notifications: Iterable[Notification]) -> list[Notification]:
        """Let notifications wait.

        An alert that begins again must not be ended by what is left of its last end.

        Returns:
            Notifications that need not be sent any more.
        """
        obsolete = []
        for notification in notifications:
            if notification.transition is Transition.BEGAN:
                copies = filter(is_copy, self._waiting)
                obsolete += [other for other in copies if other.about == notification.about]
            self._waiting.append(notification)
        obsolete += self._waiting[: max(0, len(self._waiting) - MOST_WAITING)]
        self.dropped += max(0, len(self._waiting) - MOST_WAITING)
        for notification in obsolete:
            self.sent(notification)
        return obsolete

    def has(self, about: str) -> bool:
        """Return whether something about an alert waits."""
        return any(notification.about == about for notification in self._waiting)

    def due(self, now_ns: int) -> Notification | None:
        """Return the one to be sent now; of each alert only the first that waits."""
        if now_ns < self._paused_until_ns:
            return None
        seen: set[str] = set()
        for notification in self._waiting:
            if notification.about not in seen and self._at_ns(notification) <= now_ns:
                return notification
            seen.add(notification.about)
        return None

    def sent(self, notification: Notification) -> None:
        """Remove one that need not be sent any more."""
        if notification in self._waiting:
            self._waiting.remove(notification)
        self._tries.pop(notification.key, None)
        self._not_before.pop(notification.key, None)

    def failed(
        self, notification: Notification, now_ns: int, retry_after_s: float | None = None
    ) -> bool:
        """Try it again later.

        Args:
            notification: The one that was not taken.
            retry_after_s: How long the receiver wants nothing at all; None: it does not say.

        Returns:
            False: no more, since it has failed for a day.
        """
        asked_ns = min(round((retry_after_s or 0) * 1e9), LONGEST_PAUSE_NS)
        self._paused_until_ns = now_ns + asked_ns
        if now_ns - notification.due_ns > GIVE_UP_NS:
            self.dropped += 1
            self.sent(notification)
            return False
        tries = self._tries.get(notification.key, 0)
        self._tries[notification.key] = tries + 1
        pause_ns = min(FIRST_PAUSE_NS << min(tries, 30), LONGEST_PAUSE_NS)
        self._not_before[notification.key] = now_ns + round(pause_ns * (0.5 + self._chance() / 2))
        return True

    def _at_ns(self, notification: Notification) -> int:
        return max(notification.due_ns, self._not_before.get(notification.key, 0))


def is_copy(notification: Notification) -> bool:
    """Return whether a notification says once more that an alert has ended."""
    return ":ended:" in notification.key
