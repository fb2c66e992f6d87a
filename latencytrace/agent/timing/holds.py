"""Times when a thread could take up nothing else: a callback held its event loop, or it served."""

import threading
from collections import deque
from typing import Final, NamedTuple

NOTICED_NS: Final = 1_000_000
# So long after a hold runs what waited for it; what runs later waited for something else, too.
_RESUMED_WITHIN_NS: Final = 5_000_000
_RESUMED_WITHIN_PART: Final = 10  # of the hold: on a busy machine that of a long one may be more
# So soon after a hold is read what came meanwhile, and follows the next: on a busy machine another
# program runs in between.
_FOLLOWED_WITHIN_NS: Final = 250_000_000
_KEPT: Final = 64  # holds of a thread


class Hold(NamedTuple):
    """A stretch of monotonic time, and what held the thread."""

    start_ns: int
    end_ns: int
    by: str
    came_ns: int | None  # when the request came that ended with it; None: none did
    waited_ns: int  # for a processor meanwhile, at least


class Wait(NamedTuple):
    """The time of a request before it was taken up."""

    since_ns: int
    until_ns: int
    by: str  # what held the thread for most of it
    behind: int  # how many requests that came before it were served meanwhile
    processor_ns: int = 0  # of it, how long nothing but the lack of a processor held the thread


def resumed_within_ns(held_ns: int) -> int:
    """Return how long after a hold what waited for it is run."""
    return max(_RESUMED_WITHIN_NS, held_ns // _RESUMED_WITHIN_PART)


class _Lately(threading.local):
    """Holds of the current thread, in order of time and without overlap."""

    def __init__(self) -> None:
        self.holds: deque[Hold] = deque(maxlen=_KEPT)
        self.since_ns = 0  # when the first of those began that followed each other closely
        self.followed_by_ns = 0


class Holds:
    """Holds of a process, noted by the threads that they held."""

    __slots__ = ("_lately", "followed_by_ns")

    def __init__(self) -> None:
        self._lately = _Lately()
        self.followed_by_ns = 0  # by then is read what came to a socket meanwhile

    def reset_after_fork(self) -> None:
        """In a forked child: nothing has held it yet."""
        self._lately, self.followed_by_ns = _Lately(), 0

    def note(
        self,
        start_ns: int,
        end_ns: int,
        by: str,
        came_ns: int | None = None,
        waited_ns: int = 0,
    ) -> None:
        """Note that the current thread was held between two monotonic times.

        Args:
            start_ns: Where another hold lasted longer, this one begins at its end.
            end_ns: Now.
            by: The name of what held it.
            came_ns: When the request came that ended with it; None: none did.
            waited_ns: How long the thread waited for a processor meanwhile, at least.
        """
        lately = self._lately
        if lately.holds:
            start_ns = max(start_ns, lately.holds[-1].end_ns)
        if end_ns - start_ns < NOTICED_NS:
            return
        if start_ns >= lately.followed_by_ns:
            lately.since_ns = start_ns
        waited_ns = min(waited_ns, end_ns - start_ns)
        lately.holds.append(Hold(start_ns, end_ns, by, came_ns, waited_ns))
        lately.followed_by_ns = end_ns + _FOLLOWED_WITHIN_NS
        self.followed_by_ns = max(self.followed_by_ns, lately.followed_by_ns)

    def lately(self, at_ns: int) -> tuple[int, int] | None:
        """Return when the current thread began and ended to be held; None: not just before."""
        lately = self._lately
        if at_ns >= lately.followed_by_ns:
            return None
        return lately.since_ns, lately.holds[-1].end_ns

    def wait(self, since_ns: int, until_ns: int) -> Wait | None:
        """Describe a wait for the current thread; None: it is short, or nothing held that."""
        if until_ns - since_ns < NOTICED_NS:
            return None
        times_ns: dict[str, int] = {}
        processor_ns, before = 0, set()
        for hold in self._lately.holds:
            length_ns = min(hold.end_ns, until_ns) - max(hold.start_ns, since_ns)
            if length_ns > 0:
                waited_ns = hold.waited_ns * length_ns // (hold.end_ns - hold.start_ns)
                processor_ns += waited_ns
                times_ns[hold.by] = times_ns.get(hold.by, 0) + length_ns - waited_ns
                if hold.came_ns is not None and hold.came_ns <= since_ns:
                    before.add(hold.came_ns)
        if not times_ns:
            return None
        if until_ns - since_ns - processor_ns < NOTICED_NS:
            processor_ns = until_ns - since_ns
        elif processor_ns < NOTICED_NS:
            processor_ns = 0
        by = max(times_ns, key=times_ns.__getitem__)
        return Wait(since_ns, until_ns, by, len(before), processor_ns)
