"""Open traces, when each is complete enough for its ledgers, and an account of all spans.

It knows trace ids, times and counts only; the spans stay in the store. No thread, no I/O.

A trace is not attributed while spans of it wait to be stored, unless its attribution claims
them, to store them itself. Each span that was submitted is counted until its end: with a ledger,
or without one for a reason.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from itertools import islice

from latencytrace.service.ledgers.posts import Posts
from latencytrace.service.metrics.span_account import Account, Without

SECOND_NS = 1_000_000_000
QUIET_NS = SECOND_NS  # after the last span of a trace whose root has arrived
BUSY_NS = 10 * SECOND_NS  # after its root a trace is attributed that is never quiet
AT_ONCE = 4  # attributions of a trace before each waits twice as long as the one before
MOST_DOUBLED = 6
ROOTLESS_QUIET_NS = 30 * SECOND_NS  # after the last span of one whose root has not
AGE_NS = 300 * SECOND_NS  # after its first span a trace is attributed, and revised as more come
LATE_NS = 600 * SECOND_NS  # a span that comes later than this is counted, and left
STORED_NS = 6000 * SECOND_NS  # for so long arrivals are in the store, and a while longer
MISSED_NS = 60 * SECOND_NS  # how long spans are looked for that the store does not show
MAX_OPEN = 100_000
MAX_CLOSED = 200_000  # traces remembered, to know what is late

Counts = Mapping[str, int]  # spans by trace id


class TraceState(StrEnum):
    """The place of a trace in its life; the transitions are in `docs/pages/architecture.md`."""

    UNKNOWN = "unknown"  # nothing is remembered of it
    OPEN = "open"  # its spans are still coming, or wait to be attributed
    BEING_WRITTEN = "being written"  # its ledgers are made and written
    WRITTEN = "written"  # they are in the store
    WITHOUT_ROOT = "without a root"  # it holds no request so far


@dataclass(slots=True)
class _Open:
    """One trace whose spans are still coming."""

    first_ns: int
    last_ns: int
    rooted: bool
    rooted_ns: int = 0  # when its root came, or more spans of one that was attributed
    doubled: int = 0  # how often the wait for quiet was, for it was attributed often
    spans: int = 0  # since it was opened
    waiting: int = 0  # of the spans, those that a commit has to store
    claimed: int = 0  # of the spans, those that its attribution has to store
    from_store: bool = False  # nothing of it can be claimed
    late: int = 0  # of the spans, those that are only stored
    missed_ns: int | None = None  # when spans of it were first missed in the store
    left: bool = False  # an earlier process stored spans of it and did not attribute them

    @property
    def due_ns(self) -> int:
        if self.rooted:
            quiet_ns = self.last_ns + (QUIET_NS << self.doubled)
            old_ns = self.rooted_ns + (BUSY_NS << self.doubled)
        else:
            quiet_ns = self.last_ns + ROOTLESS_QUIET_NS
            old_ns = self.first_ns + AGE_NS
        return quiet_ns if quiet_ns < old_ns else old_ns  # noqa: FURB136 - `min` takes 5 times as long

    def join(self, taken: "_Open") -> None:
        """Take back what was taken."""
        self.spans += taken.spans
        self.waiting += taken.claimed
        self.late += taken.late
        self.left |= taken.left
        self.missed_ns = taken.missed_ns

    def is_complete(self, now_ns: int) -> bool:
        """Whether it can be attributed: all of it is stored, or it has grown old."""
        return not self.waiting or now_ns - self.first_ns >= AGE_NS


@dataclass(slots=True)
class _Closed:
    """One trace that was due."""

    due_ns: int  # for the first time
    spans: int  # that were attributed
    times: int = 0  # how often it was
    old_ns: int | None = None  # when a rootless one has been quiet for so long that it is old

    def add(self, spans: int) -> None:
        """Take note that more were attributed."""
        self.spans += spans
        self.times += 1


@dataclass(slots=True)
class AssemblerCounts:
    """Counts of what the bounds cost, and of what is not to be done yet."""

    evicted: int = 0  # traces attributed early because too many were open
    late: int = 0  # times that spans came too late for their trace
    awaiting_root: int = 0  # spans of open traces whose root has not come
    late_ns: int = 0  # how long the first one of what was due last had been so

    def take(self, trace: _Open, now_ns: int) -> None:
        """Take note of how long a trace has been due."""
        if not trace.from_store:  # which was taken in time, and put back for the store
            self.late_ns = max(self.late_ns, now_ns - trace.due_ns)

    def add(self, trace: _Open, spans: int) -> None:
        """Take note that an open trace has so many spans more."""
        if not trace.rooted:
            self.awaiting_root += spans

    def has_root(self, trace: _Open, now_ns: int) -> None:
        """Take note that the root of an open trace is there, or is not waited for."""
        self.add(trace, -trace.spans)
        if not trace.rooted:
            trace.rooted, trace.rooted_ns = True, now_ns


class Assembler:
    """Open traces, by the time when each is due.

    A trace is due when it has been quiet for a second and its root has arrived, ten seconds later
    at most, or when it has grown old. A span that comes later makes its trace due again.

    Args:
        now_ns: The clock; one that is never set back.
        max_open: The oldest of more open traces are due at once.
        max_closed: How many traces are remembered after they were due. Spans of a
            forgotten one, however late, make it due again.
        posts: Where the spans are; asked of a trace that is due whether its attribution has all
            of them at hand, to store those that are not.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        *,
        max_open: int = MAX_OPEN,
        max_closed: int = MAX_CLOSED,
        posts: Posts | None = None,
    ) -> None:
        self.counts = AssemblerCounts()
        self.account = Account()
        self._now_ns = now_ns
        self._max_open = max_open
        self._max_closed = max_closed
        self._posts = posts or Posts()
        self._forgotten: list[str] = []
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._attributing: dict[str, _Open] = {}
        self._due: list[tuple[int, str]] = []  # a heap; an entry may be earlier than it is true
        self._closed: OrderedDict[str, _Closed] = OrderedDict()
        self._rootless: OrderedDict[str, _Closed] = OrderedDict()
        self._growing_old: list[tuple[int, str]] = []  # a heap, of the rootless ones

    @property
    def open_count(self) -> int:
        """How many traces are open."""
        return len(self._open)

    @property
    def is_overfull(self) -> bool:
        """Whether traces come faster than they are taken: no more should be let in."""
        return len(self._open) > 2 * self._max_open

    def state(self, trace_id: str) -> TraceState:
        """The state of a trace."""
        if trace_id in self._attributing:
            return TraceState.BEING_WRITTEN
        if trace_id in self._open:
            return TraceState.OPEN
        if trace_id in self._rootless:
            return TraceState.WITHOUT_ROOT
        return TraceState.WRITTEN if trace_id in self._closed else TraceState.UNKNOWN

    def is_open(self, trace_id: str) -> bool:
        """Whether spans of a trace have come that are not attributed yet."""
        return self.state(trace_id) in {TraceState.OPEN, TraceState.BEING_WRITTEN}

    def is_old(self, trace_id: str) -> bool:
        """Whether a trace has been quiet for so long that its root will not come any more."""
        known = self._rootless.get(trace_id)
        return known is not None and known.old_ns is not None and known.old_ns <= self._now_ns()

    def arrived(self, spans: Counts, rooted: frozenset[str]) -> None:
        """Note that spans arrived and wait to be stored, of `rooted` a root among them."""
        now_ns = self._now_ns()
        self.account.take(sum(spans.values()))
        for trace_id, count in spans.items():
            trace = self._open.get(trace_id)
            if trace is None:
                trace = self._opened(trace_id, now_ns, rooted=trace_id in rooted)
            elif trace_id in rooted and not trace.rooted:
                self.counts.has_root(trace, now_ns)
                heappush(self._due, (trace.due_ns, trace_id))
            trace.last_ns = now_ns
            trace.spans += count
            self.counts.add(trace, count)
            trace.waiting += count
            if (closed := self._closed.get(trace_id)) and now_ns - closed.due_ns > LATE_NS:
                self.counts.late += 1
                trace.late += count

    def stored(self, spans: Counts) -> None:
        """Note that spans which arrived can be read from now on."""
        for trace_id, count in spans.items():
            trace = self._open[trace_id]  # whatever waits keeps it open
            trace.waiting -= count
            if trace.late == trace.spans and not (trace.waiting or trace.left):
                self.counts.add(self._open.pop(trace_id), -trace.spans)
                self.account.open -= trace.spans
                self.account.without[Without.LATE] += trace.spans
                self._forgotten.append(trace_id)

    def withdrawn(self, spans: Counts) -> None:
        """Note that spans which arrived are not kept, and that their sender knows it."""
        for trace_id, count in spans.items():
            self.account.taken -= count
            self._removed(trace_id, count)

    def refused(self, spans: Counts) -> None:
        """Note that spans which were acknowledged can never be stored."""
        for trace_id, count in spans.items():
            self.account.without[Without.REFUSED] += count
            self._removed(trace_id, count)

    def left(self, trace_ids: Iterable[str]) -> None:
        """Open traces whose spans an earlier process stored and did not attribute."""
        for trace_id in (one for one in trace_ids if one not in self._attributing):
            trace = self._open.get(trace_id) or self._opened(trace_id, self._now_ns(), rooted=True)
            self.counts.has_root(trace, self._now_ns())
            trace.left = True
            heappush(self._due, (trace.due_ns, trace_id))

    def is_due(self) -> bool:
        """Whether a trace may be due."""
        now_ns = self._now_ns()
        return len(self._open) > self._max_open or any(
            heap and heap[0][0] <= now_ns for heap in (self._due, self._growing_old)
        )

    def due(self, limit: int) -> list[str]:
        """Take up to `limit` traces that are due, the oldest first where too many are open.

        Those of which spans wait to be stored and cannot be claimed stay open, as a whole or, if
        they have grown old, with what waits. What was taken is to be given back by `attributed`,
        `without`, `again`, `from_store` or `missed`.
        """
        now_ns, self.counts.late_ns = self._now_ns(), 0
        due = self._evicted(limit)
        due += self._grown_old(now_ns, limit - len(due))
        waiting: list[tuple[int, str]] = []
        while self._due and self._due[0][0] <= now_ns and len(due) < limit:
            entry = heappop(self._due)
            trace = self._open.get(entry[1])
            if trace is None:  # evicted, or due by an entry of its own
                continue
            if trace.due_ns > now_ns:
                heappush(self._due, (trace.due_ns, entry[1]))
            elif self._is_ready(entry[1], trace, now_ns):
                self.counts.take(trace, now_ns)
                due.append(self._taken(entry[1]))
            else:
                waiting.append(entry)
        for entry in waiting:
            heappush(self._due, entry)
        return due

    def short(self, shown: Counts) -> Counts:
        """Of traces that were taken, those that show fewer spans than expected: by how many."""
        short = {trace_id: self.expected(trace_id) - count for trace_id, count in shown.items()}
        return {trace_id: by for trace_id, by in short.items() if by > 0}

    def expected(self, trace_id: str) -> int:
        """How many spans of a trace that was taken have been stored, as far as is remembered."""
        return self._before(trace_id) + self._attributing[trace_id].spans

    def being_attributed(self, trace_ids: Iterable[str]) -> list[str]:
        """Those of the traces that were taken and not given back."""
        return [trace_id for trace_id in trace_ids if trace_id in self._attributing]

    def attributed(self, trace_ids: Iterable[str]) -> None:
        """Give back traces that have their ledgers."""
        for trace_id in trace_ids:
            self.account.attributed += self._close(trace_id)
            if rootless := self._rootless.pop(trace_id, None):
                self.account.rootless -= rootless.spans
                self.account.attributed += rootless.spans
                self._closed[trace_id].spans += rootless.spans

    def without(self, trace_ids: Iterable[str], reason: Without | None) -> None:
        """Give back traces that were attributed and have no ledger: spans still make them due.

        Args:
            trace_ids: They.
            reason: None: they hold no request so far, for their root has not come.
        """
        for trace_id in trace_ids:
            spans = self._close(trace_id)
            self._closed.pop(trace_id, None)  # none of what comes is late before it held a request
            if reason is not None:
                self.account.without[reason] += spans
                continue
            self.account.rootless += spans
            known = self._rootless.setdefault(trace_id, _Closed(self._now_ns(), 0))
            known.spans += spans
            if not self.is_old(trace_id):
                self._grows_old(trace_id, known)
            while len(self._rootless) > self._max_closed:
                forgotten_id, forgotten = self._rootless.popitem(last=False)
                self._forgotten.append(forgotten_id)
                self.account.rootless -= forgotten.spans
                self.account.without[Without.NO_REQUEST] += forgotten.spans

    def again(self, trace_ids: Iterable[str]) -> None:
        """Open traces again that were taken and could not be attributed for now."""
        for trace_id in self._attributing.keys() & set(trace_ids):
            self._reopened(trace_id)

    def from_store(self, trace_ids: Iterable[str]) -> None:
        """Open traces again that were taken and are due once all of them is stored."""
        for trace_id in trace_ids:
            self._reopened(trace_id).from_store = True

    def missed(self, trace_id: str, count: int) -> bool:
        """Note that the store does not show all spans of a trace that was taken.

        Returns:
            Whether it is open again, for they may come to light. Otherwise they count as
            lost, and the trace is to be attributed without them.
        """
        now_ns = self._now_ns()
        trace = self._attributing[trace_id]
        if trace.missed_ns is None or now_ns - trace.missed_ns < MISSED_NS:
            missed_ns = now_ns if trace.missed_ns is None else trace.missed_ns
            self._reopened(trace_id).missed_ns = missed_ns
            return True
        lost = min(count, trace.spans)
        trace.spans -= lost
        self.account.open -= lost
        if closed := self._closed.get(trace_id):  # those were attributed, and are not sought again
            gone = min(count - lost, closed.spans)
            closed.spans -= gone
            count -= gone
        if rootless := self._rootless.get(trace_id):
            gone = min(count - lost, rootless.spans)
            rootless.spans -= gone
            self.account.rootless -= gone
            lost += gone
        self.account.without[Without.LOST] += lost
        return False

    def take_forgotten(self) -> list[str]:
        """The traces that hold no request and were let go of, since the last call."""
        found, self._forgotten = self._forgotten, []
        return found

    def close_all(self) -> list[str]:
        """Take every trace that has its root: the service ends."""
        rooted = [one for one, trace in self._open.items() if trace.rooted and not trace.waiting]
        return [self._taken(trace_id) for trace_id in rooted]

    def _opened(self, trace_id: str, now_ns: int, *, rooted: bool) -> _Open:
        taken = self._attributing.get(trace_id)  # what is or was attributed has had its root
        rooted |= trace_id in self._closed or (taken is not None and taken.rooted)
        trace = self._open[trace_id] = _Open(now_ns, now_ns, rooted, now_ns)
        trace.doubled = _doubled(self._closed.get(trace_id))
        heappush(self._due, (trace.due_ns, trace_id))
        if (known := self._rootless.get(trace_id)) and not self.is_old(trace_id):
            known.old_ns = None  # it is quiet no more
        return trace

    def _before(self, trace_id: str) -> int:
        """How many spans of a trace were attributed before, or hold no request so far."""
        known = [one for one in (self._closed.get(trace_id), self._rootless.get(trace_id)) if one]
        return _spans_since(self._now_ns() - STORED_NS, known) if known else 0

    def _is_ready(self, trace_id: str, trace: _Open, now_ns: int) -> bool:
        """Tell whether a trace can be taken: its attribution has all of it, or it is old."""
        if trace_id in self._attributing:  # what came before is still being written
            return False
        if trace.waiting and not (trace.from_store or trace.left):
            trace.from_store = not self._posts.claim(
                trace_id, self._before(trace_id) + trace.spans
            )
            if not trace.from_store:
                trace.claimed, trace.waiting = trace.waiting, 0
        return trace.is_complete(now_ns)

    def _taken(self, trace_id: str) -> str:
        """Take an open trace; what of it waits to be stored stays open."""
        trace = self._open.pop(trace_id)
        self.counts.add(trace, -trace.spans)
        if trace.waiting:
            rest = self._opened(trace_id, self._now_ns(), rooted=trace.rooted)
            rest.spans = rest.waiting = trace.waiting
            self.counts.add(rest, rest.spans)
            trace.spans, trace.waiting = trace.spans - trace.waiting, 0
        self._attributing[trace_id] = trace
        return trace_id

    def _reopened(self, trace_id: str) -> _Open:
        taken = self._attributing.pop(trace_id)
        trace = self._open.get(trace_id) or self._opened(trace_id, self._now_ns(), rooted=True)
        self.counts.has_root(trace, self._now_ns())
        trace.join(taken)
        heappush(self._due, (trace.due_ns, trace_id))
        return trace

    def _evicted(self, limit: int) -> list[str]:
        """The oldest traces, as many as are too many."""
        evicted: list[str] = []
        if (excess := min(len(self._open) - self._max_open, limit)) > 0:
            now_ns, of_all = self._now_ns(), self._open.items()
            ready = (one for one, trace in of_all if self._is_ready(one, trace, now_ns))
            evicted += islice(ready, excess)
            self.counts.evicted += len(evicted)
        return [self._taken(trace_id) for trace_id in evicted]

    def _grown_old(self, now_ns: int, limit: int) -> list[str]:
        """Rootless traces that have just grown old: they are attributed once more."""
        taken: list[str] = []
        while self._growing_old and self._growing_old[0][0] <= now_ns and len(taken) < limit:
            old_ns, trace_id = heappop(self._growing_old)
            known = self._rootless.get(trace_id)
            if known and known.old_ns == old_ns and not self.is_open(trace_id):
                self._opened(trace_id, now_ns, rooted=True)
                taken.append(self._taken(trace_id))
        return taken

    def _removed(self, trace_id: str, count: int) -> None:
        """Take spans out of their trace that are never stored."""
        self.account.open -= count
        trace = self._open[trace_id]
        trace.waiting -= count
        trace.spans -= count
        self.counts.add(trace, -count)
        trace.late = min(trace.late, trace.spans)
        if not (trace.spans or trace.left):
            del self._open[trace_id]
            if (known := self._rootless.get(trace_id)) and known.old_ns is None:
                self._grows_old(trace_id, known)  # it was quiet before, and is again

    def _grows_old(self, trace_id: str, known: _Closed) -> None:
        known.old_ns = self._now_ns() + ROOTLESS_QUIET_NS
        heappush(self._growing_old, (known.old_ns, trace_id))

    def _close(self, trace_id: str) -> int:
        """Remember a trace that was attributed; how many spans of it were."""
        trace = self._attributing.pop(trace_id)
        self.account.open -= trace.spans
        closed = self._closed.setdefault(trace_id, _Closed(self._now_ns(), 0))
        closed.add(trace.spans)
        while len(self._closed) > self._max_closed:
            self._closed.popitem(last=False)
        return trace.spans


def _doubled(closed: _Closed | None) -> int:
    """Return how often the wait of a trace is doubled: each attribution is of all of it.

    What a request has started, such as a poller, may send spans for ever.
    """
    return 0 if closed is None else min(max(closed.times - AT_ONCE, 0), MOST_DOUBLED)


def _spans_since(since_ns: int, known: Iterable[_Closed]) -> int:
    """The spans of those that are known; of those that came long ago, the arrivals may be gone."""
    return sum(one.spans for one in known if one.due_ns > since_ns)
