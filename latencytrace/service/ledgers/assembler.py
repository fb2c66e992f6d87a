"""Decides when a trace is complete enough for its ledgers, and accounts for every span.

It holds trace ids, times and counts, no spans. It has no thread and does no I/O.

A trace is not attributed while spans of it wait to be stored, unless its attribution claims
these spans and stores them itself, or they have waited for `AGE_NS`. It is never attributed while
a commit of its spans is under way: the next start would take them for attributed. Each span is
counted until it has a ledger, or is without one for a known reason.
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
QUIET_NS = SECOND_NS  # without a span, before a trace with its root is due
BUSY_NS = 10 * SECOND_NS  # after its root a trace is due, though spans still arrive
AT_ONCE = 4  # revisions of a trace, before each waits twice as long as the one before
MOST_DOUBLED = 6
ROOTLESS_QUIET_NS = 30 * SECOND_NS  # without a span, before a trace without its root is due
AGE_NS = 300 * SECOND_NS  # after its first span a trace without its root is due
LATE_NS = 600 * SECOND_NS  # after its trace was due a span is stored, and not attributed
STORED_NS = 6000 * SECOND_NS  # the store keeps arrivals for longer than this
MISSED_NS = 60 * SECOND_NS  # spans that the store does not show for so long are lost
MAX_OPEN = 100_000
MAX_CLOSED = 200_000  # attributed traces that are remembered, to recognise late spans

Counts = Mapping[str, int]  # spans by trace id


class TraceState(StrEnum):
    """The state of a trace; `docs/pages/architecture.md` has the transitions."""

    UNKNOWN = "unknown"  # not seen, or forgotten
    OPEN = "open"  # spans arrive, or wait to be attributed
    BEING_WRITTEN = "being written"  # its ledgers are computed and written
    WRITTEN = "written"  # its ledgers are in the store
    WITHOUT_ROOT = "without a root"  # no request in it so far

    @property
    def is_open(self) -> bool:
        """Return whether a trace has spans that are not attributed yet."""
        return self in {TraceState.OPEN, TraceState.BEING_WRITTEN}


@dataclass(slots=True)
class _Open:
    """An open trace. Counts are of spans since it was opened."""

    first_ns: int
    last_ns: int
    rooted: bool
    rooted_ns: int = 0  # when its root arrived, or the first span of its next revision
    doubled: int = 0  # how often its times to wait are doubled
    spans: int = 0
    waiting: int = 0  # to be stored by a commit
    claimed: int = 0  # to be stored by its attribution
    from_store: bool = False  # its attribution may not claim spans, and reads all from the store
    late: int = 0  # stored, but not attributed
    missed_ns: int | None = None  # when the store first did not show all of its spans
    left: bool = False  # an earlier process stored spans of it without attributing them

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
        """Add the counts of the part that was being attributed."""
        self.spans += taken.spans
        self.waiting += taken.claimed
        self.late += taken.late
        self.left |= taken.left
        self.missed_ns = taken.missed_ns

    def is_complete(self, now_ns: int, *, is_committing: bool) -> bool:
        """Return whether it can be attributed: all of it is stored, or `AGE_NS` have passed."""
        return not self.waiting or (now_ns - self.first_ns >= AGE_NS and not is_committing)

    def waits_for(self, now_ns: int, state: TraceState) -> str:
        """Return why it has no ledger yet, as people read it."""
        if state is TraceState.BEING_WRITTEN:
            why = "its ledger is being written"
        elif not self.rooted:
            why = "the span of its request has not arrived"
        elif now_ns < self.due_ns:
            why = "spans of it still arrive"
        else:
            why = "spans of it wait to be stored"
        first_s, last_s = ((now_ns - at) // SECOND_NS for at in (self.first_ns, self.last_ns))
        return f"{why} (its first span came {first_s} s ago, its last one {last_s} s ago)"


@dataclass(slots=True)
class _Closed:
    """A trace that was attributed."""

    due_ns: int  # the first time
    spans: int  # attributed
    times: int = 0  # how often it was attributed
    old_ns: int | None = None  # when a trace without its root counts as complete

    def add(self, spans: int) -> None:
        """Note that more spans were attributed."""
        self.spans += spans
        self.times += 1


@dataclass(slots=True)
class AssemblerCounts:
    """Counts for metrics and for admission."""

    evicted: int = 0  # traces attributed early because too many were open
    late: int = 0  # posts with spans that came too late for their trace
    awaiting_root: int = 0  # spans of open traces without their root
    late_ns: int = 0  # delay of the oldest trace in the last batch

    def take(self, trace: _Open, now_ns: int) -> None:
        """Note how long a trace has been due."""
        if not trace.from_store:  # that one was taken in time, and waited for the store
            self.late_ns = max(self.late_ns, now_ns - trace.due_ns)

    def add(self, trace: _Open, spans: int) -> None:
        """Note that an open trace has more spans."""
        if not trace.rooted:
            self.awaiting_root += spans

    def has_root(self, trace: _Open, now_ns: int) -> None:
        """Note that an open trace no longer waits for its root."""
        self.add(trace, -trace.spans)
        if not trace.rooted:
            trace.rooted, trace.rooted_ns = True, now_ns


class Assembler:
    """Open traces, in the order in which they are due.

    A trace with its root is due a second after its last span, at the latest `BUSY_NS` after its
    root; one without it after `ROOTLESS_QUIET_NS`, at the latest `AGE_NS` after its first span.
    A later span makes it due again.

    Args:
        now_ns: A monotonic clock.
        max_open: With more open traces the oldest are due at once.
        max_closed: How many attributed traces are remembered. A span of a forgotten one makes
            it due again, however late it is.
        posts: Holds the spans; says whether an attribution can claim all spans of a trace.
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
        self._due: list[tuple[int, str]] = []  # a heap; the trace may be due later than its entry
        self._closed: OrderedDict[str, _Closed] = OrderedDict()
        self._rootless: OrderedDict[str, _Closed] = OrderedDict()
        self._growing_old: list[tuple[int, str]] = []  # a heap of the traces without a root

    @property
    def open_count(self) -> int:
        """How many traces are open."""
        return len(self._open)

    @property
    def is_overfull(self) -> bool:
        """Whether so many traces are open that new spans must be refused."""
        return len(self._open) > 2 * self._max_open

    def state(self, trace_id: str) -> TraceState:
        """Return the state of a trace."""
        if trace_id in self._attributing:
            return TraceState.BEING_WRITTEN
        if trace_id in self._open:
            return TraceState.OPEN
        if trace_id in self._rootless:
            return TraceState.WITHOUT_ROOT
        return TraceState.WRITTEN if trace_id in self._closed else TraceState.UNKNOWN

    def open_because(self, trace_id: str) -> str | None:
        """Return what an open trace waits for, as people read it; None: it is not open."""
        trace = self._attributing.get(trace_id) or self._open.get(trace_id)
        return trace.waits_for(self._now_ns(), self.state(trace_id)) if trace else None

    def is_old(self, trace_id: str) -> bool:
        """Return whether the root of a trace is not expected any more."""
        known = self._rootless.get(trace_id)
        return known is not None and known.old_ns is not None and known.old_ns <= self._now_ns()

    def arrived(self, spans: Counts, rooted: frozenset[str]) -> None:
        """Note that spans arrived and wait to be stored.

        Args:
            spans: Their number by trace id.
            rooted: The traces whose root is among them.
        """
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
        """Note that spans are in the store."""
        for trace_id, count in spans.items():
            trace = self._open[trace_id]  # open as long as spans wait
            trace.waiting -= count
            if trace.late == trace.spans and not (trace.waiting or trace.left):
                self.counts.add(self._open.pop(trace_id), -trace.spans)
                self.account.open -= trace.spans
                self.account.without[Without.LATE] += trace.spans
                self._forgotten.append(trace_id)

    def withdrawn(self, spans: Counts) -> None:
        """Note that spans were not kept, and that their sender got an error."""
        for trace_id, count in spans.items():
            self.account.taken -= count
            self._removed(trace_id, count)

    def refused(self, spans: Counts) -> None:
        """Note that acknowledged spans can never be stored."""
        for trace_id, count in spans.items():
            self.account.without[Without.REFUSED] += count
            self._removed(trace_id, count)

    def left(self, trace_ids: Iterable[str]) -> None:
        """Open traces whose spans an earlier process stored without attributing them."""
        for trace_id in (one for one in trace_ids if one not in self._attributing):
            self._reopened(trace_id).left = True

    def is_due(self) -> bool:
        """Return whether a trace may be due."""
        now_ns = self._now_ns()
        return len(self._open) > self._max_open or any(
            heap and heap[0][0] <= now_ns for heap in (self._due, self._growing_old)
        )

    def due(self, limit: int) -> list[str]:
        """Take up to `limit` traces that are due; with too many open ones the oldest first.

        A trace with spans that wait to be stored and cannot be claimed stays open. After `AGE_NS`
        only those spans stay open. The caller must give back what it took, by `attributed`,
        `without`, `again`, `from_store` or `missed`.
        """
        now_ns, self.counts.late_ns = self._now_ns(), 0
        due = self._evicted(limit)
        due += self._grown_old(now_ns, limit - len(due))
        waiting: list[tuple[int, str]] = []
        while self._due and self._due[0][0] <= now_ns and len(due) < limit:
            entry = heappop(self._due)
            trace = self._open.get(entry[1])
            if trace is None:  # evicted, or taken by another entry
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
        """Return how many spans of taken traces the store does not show, where it lacks some."""
        short = {trace_id: self.expected(trace_id) - count for trace_id, count in shown.items()}
        return {trace_id: by for trace_id, by in short.items() if by > 0}

    def expected(self, trace_id: str) -> int:
        """Return how many spans of a taken trace the store should have."""
        return self._before(trace_id) + self._attributing[trace_id].spans

    def being_attributed(self, trace_ids: Iterable[str]) -> list[str]:
        """Return those of the traces that were taken and not given back."""
        return [trace_id for trace_id in trace_ids if trace_id in self._attributing]

    def attributed(self, trace_ids: Iterable[str]) -> None:
        """Give back traces whose ledgers are written."""
        for trace_id in trace_ids:
            self.account.attributed += self._close(trace_id)
            if rootless := self._rootless.pop(trace_id, None):
                self.account.rootless -= rootless.spans
                self.account.attributed += rootless.spans
                self._closed[trace_id].spans += rootless.spans

    def without(self, trace_ids: Iterable[str], reason: Without | None) -> None:
        """Give back traces that end without a ledger. A later span makes them due again.

        Args:
            trace_ids: Traces to give back.
            reason: Why they have none; None: no root has arrived, so they hold no request yet.
        """
        for trace_id in trace_ids:
            spans = self._close(trace_id)
            self._closed.pop(trace_id, None)  # without a request no span is late
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
        """Give back traces that could not be attributed for now: they are open again."""
        for trace_id in self._attributing.keys() & set(trace_ids):
            self._reopened(trace_id)

    def from_store(self, trace_ids: Iterable[str]) -> None:
        """Give back traces that must be read from the store, once it has all their spans."""
        for trace_id in trace_ids:
            self._reopened(trace_id).from_store = True

    def missed(self, trace_id: str, count: int) -> bool:
        """Note that the store does not show all spans of a taken trace.

        Returns:
            True: the trace is open again, to be tried later. False: `MISSED_NS` have passed, the
            spans count as lost, and the trace is attributed without them.
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
        if closed := self._closed.get(trace_id):  # attributed before: not expected any more
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
        """Return the traces without a request that were forgotten since the last call."""
        found, self._forgotten = self._forgotten, []
        return found

    def close_all(self) -> list[str]:
        """Take every trace that has its root, at the end of the service."""
        rooted = [one for one, trace in self._open.items() if trace.rooted and not trace.waiting]
        return [self._taken(trace_id) for trace_id in rooted]

    def _opened(self, trace_id: str, now_ns: int, *, rooted: bool) -> _Open:
        taken = self._attributing.get(trace_id)  # a trace that was attributed has had its root
        rooted |= trace_id in self._closed or (taken is not None and taken.rooted)
        trace = self._open[trace_id] = _Open(now_ns, now_ns, rooted, now_ns)
        trace.doubled = _doubled(self._closed.get(trace_id))
        heappush(self._due, (trace.due_ns, trace_id))
        if (known := self._rootless.get(trace_id)) and not self.is_old(trace_id):
            known.old_ns = None  # the quiet time begins anew
        return trace

    def _before(self, trace_id: str) -> int:
        """Return how many spans of a trace were attributed before."""
        known = [one for one in (self._closed.get(trace_id), self._rootless.get(trace_id)) if one]
        return _spans_since(self._now_ns() - STORED_NS, known) if known else 0

    def _is_ready(self, trace_id: str, trace: _Open, now_ns: int) -> bool:
        """Return whether a trace can be taken; claims its spans if it can."""
        if trace_id in self._attributing:  # its earlier spans are being written
            return False
        if trace.waiting and not (trace.from_store or trace.left):
            trace.from_store = not self._posts.claim(
                trace_id, self._before(trace_id) + trace.spans
            )
            if not trace.from_store:
                trace.claimed, trace.waiting = trace.waiting, 0
        return trace.is_complete(now_ns, is_committing=self._posts.is_committing(trace_id))

    def _taken(self, trace_id: str) -> str:
        """Take an open trace; spans that wait to be stored stay open."""
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
        taken, now_ns = self._attributing.pop(trace_id, None), self._now_ns()
        trace = self._open.get(trace_id) or self._opened(trace_id, now_ns, rooted=True)
        self.counts.has_root(trace, now_ns)
        heappush(self._due, (trace.due_ns, trace_id))
        if taken is not None:
            trace.join(taken)
        return trace

    def _evicted(self, limit: int) -> list[str]:
        """Take the oldest traces beyond `max_open`."""
        evicted: list[str] = []
        if (excess := min(len(self._open) - self._max_open, limit)) > 0:
            now_ns, of_all = self._now_ns(), self._open.items()
            ready = (one for one, trace in of_all if self._is_ready(one, trace, now_ns))
            evicted += islice(ready, excess)
            self.counts.evicted += len(evicted)
        return [self._taken(trace_id) for trace_id in evicted]

    def _grown_old(self, now_ns: int, limit: int) -> list[str]:
        """Take traces without a root that were quiet for `ROOTLESS_QUIET_NS` more."""
        taken: list[str] = []
        while self._growing_old and self._growing_old[0][0] <= now_ns and len(taken) < limit:
            old_ns, trace_id = heappop(self._growing_old)
            known = self._rootless.get(trace_id)
            if known and known.old_ns == old_ns and not self.state(trace_id).is_open:
                self._opened(trace_id, now_ns, rooted=True)
                taken.append(self._taken(trace_id))
        return taken

    def _removed(self, trace_id: str, count: int) -> None:
        """Subtract spans that are never stored."""
        self.account.open -= count
        trace = self._open[trace_id]
        trace.waiting -= count
        trace.spans -= count
        self.counts.add(trace, -count)
        trace.late = min(trace.late, trace.spans)
        if not (trace.spans or trace.left):
            del self._open[trace_id]
            if (known := self._rootless.get(trace_id)) and known.old_ns is None:
                self._grows_old(trace_id, known)

    def _grows_old(self, trace_id: str, known: _Closed) -> None:
        known.old_ns = self._now_ns() + ROOTLESS_QUIET_NS
        heappush(self._growing_old, (known.old_ns, trace_id))

    def _close(self, trace_id: str) -> int:
        """Remember that a trace was attributed; return how many spans were."""
        trace = self._attributing.pop(trace_id)
        self.account.open -= trace.spans
        closed = self._closed.setdefault(trace_id, _Closed(self._now_ns(), 0))
        closed.add(trace.spans)
        while len(self._closed) > self._max_closed:
            self._closed.popitem(last=False)
        return trace.spans


def _doubled(closed: _Closed | None) -> int:
    """Return how often the times to wait are doubled, because each attribution is of all spans.

    A background task that a request started may send spans for ever.
    """
    return 0 if closed is None else min(max(closed.times - AT_ONCE, 0), MOST_DOUBLED)


def _spans_since(since_ns: int, known: Iterable[_Closed]) -> int:
    """Add up spans of traces that were due since a time; older arrivals may be dropped."""
    return sum(one.spans for one in known if one.due_ns > since_ns)
