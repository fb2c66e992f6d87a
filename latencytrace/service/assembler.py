"""Which traces are open, and when each is complete enough to be divided.

It knows trace ids and times only; the spans stay in the store. No thread, no I/O.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

SECOND_NS = 1_000_000_000
QUIET_NS = SECOND_NS  # after the last span of a trace whose root has arrived
ROOTLESS_QUIET_NS = 30 * SECOND_NS  # after the last span of one whose root has not
AGE_NS = 300 * SECOND_NS  # after its first span a trace is divided, and revised as more come
LATE_NS = 600 * SECOND_NS  # a span that comes later than this is counted, and left
MAX_OPEN = 100_000
MAX_CLOSED = 200_000  # traces remembered, to know what is late


@dataclass(slots=True)
class _Open:
    """One trace whose spans are still coming."""

    first_ns: int
    last_ns: int
    rooted: bool

    @property
    def due_ns(self) -> int:
        quiet_ns = QUIET_NS if self.rooted else ROOTLESS_QUIET_NS
        return min(self.last_ns + quiet_ns, self.first_ns + AGE_NS)


@dataclass(slots=True)
class AssemblerCounts:
    """What the bounds cost."""

    evicted: int = 0  # traces divided early because too many were open
    late: int = 0  # times that spans came too late for their trace


class Assembler:
    """Open traces, by the time when each is due.

    A trace is due when it has been quiet for a second and its root has arrived, or
    when it has grown old. A span that comes later makes its trace due again.

    Args:
        now_ns: The clock; one that is never set back.
        max_open: The oldest of more open traces are due at once.
        max_closed: How many traces are remembered after they were due. Spans of a
            forgotten one, however late, make it due again.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        *,
        max_open: int = MAX_OPEN,
        max_closed: int = MAX_CLOSED,
    ) -> None:
        self.counts = AssemblerCounts()
        self._now_ns = now_ns
        self._max_open = max_open
        self._max_closed = max_closed
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._due: list[tuple[int, str]] = []  # a heap; an entry may be earlier than it is true
        self._closed: OrderedDict[str, int] = OrderedDict()  # when each was due first

    @property
    def open_count(self) -> int:
        """How many traces are open."""
        return len(self._open)

    @property
    def is_overfull(self) -> bool:
        """Whether traces come faster than they are taken: no more should be let in."""
        return len(self._open) > 2 * self._max_open

    def is_open(self, trace_id: str) -> bool:
        """Whether spans of a trace still come."""
        return trace_id in self._open

    def arrived(self, trace_ids: Iterable[str], rooted: frozenset[str]) -> None:
        """Note that spans of these traces arrived, of `rooted` a root among them."""
        now_ns = self._now_ns()
        for trace_id in trace_ids:
            trace = self._open.get(trace_id)
            if trace is not None:
                trace.last_ns = now_ns
                if trace_id in rooted and not trace.rooted:
                    trace.rooted = True
                    heappush(self._due, (trace.due_ns, trace_id))
            elif self._is_late(trace_id, now_ns):
                self.counts.late += 1
            else:
                # What was divided once has had its root; a late span is a revision.
                root_known = trace_id in rooted or trace_id in self._closed
                trace = self._open[trace_id] = _Open(now_ns, now_ns, root_known)
                heappush(self._due, (trace.due_ns, trace_id))

    def is_due(self) -> bool:
        """Whether a trace may be due."""
        now_ns = self._now_ns()
        return len(self._open) > self._max_open or bool(self._due and self._due[0][0] <= now_ns)

    def due(self, limit: int) -> list[str]:
        """Close up to `limit` traces that are due, the oldest first where too many are open."""
        now_ns = self._now_ns()
        due: list[str] = []
        while len(self._open) > self._max_open and len(due) < limit:
            trace_id, _ = self._open.popitem(last=False)
            self.counts.evicted += 1
            due.append(trace_id)
        while self._due and self._due[0][0] <= now_ns and len(due) < limit:
            _, trace_id = heappop(self._due)
            trace = self._open.get(trace_id)
            if trace is None:  # evicted, or due by an entry of its own
                continue
            if trace.due_ns <= now_ns:
                del self._open[trace_id]
                due.append(trace_id)
            else:
                heappush(self._due, (trace.due_ns, trace_id))
        self._close(due, now_ns)
        return due

    def again(self, trace_ids: Iterable[str]) -> None:
        """Open traces again that were due and could not be divided for now."""
        self.forget(trace_ids)
        self.arrived(trace_ids, frozenset(trace_ids))

    def forget(self, trace_ids: Iterable[str]) -> None:
        """Take note that traces were due before they held a request: none of it is late."""
        for trace_id in trace_ids:
            self._closed.pop(trace_id, None)

    def close_all(self) -> list[str]:
        """Close every trace that has its root: the service ends."""
        due = [trace_id for trace_id, trace in self._open.items() if trace.rooted]
        self._open.clear()
        self._due.clear()
        return due

    def _is_late(self, trace_id: str, now_ns: int) -> bool:
        closed_ns = self._closed.get(trace_id)
        return closed_ns is not None and now_ns - closed_ns > LATE_NS

    def _close(self, trace_ids: Iterable[str], now_ns: int) -> None:
        for trace_id in trace_ids:
            self._closed.setdefault(trace_id, now_ns)
        while len(self._closed) > self._max_closed:
            self._closed.popitem(last=False)
