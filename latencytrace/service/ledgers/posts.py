"""Posts from their arrival until all of their spans are stored and in ledgers.

Memory holds the spans, as columns, until their traces have ledgers, so that no store is asked for
them. A span is written once: with the ledger of its request where that is made soon, for it is
known then which table it belongs to (its attribution claims it), and else by a commit.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from latencytrace.service.ledgers.span_parts import Parts, Rows
from latencytrace.service.otlp.span_block import SpanBlock

MAX_BYTES: Final = 512 * 1024 * 1024

_POST_BYTES: Final = 2048
_TRACE_BYTES: Final = 200


@dataclass(slots=True, eq=False)
class _Post:
    """The spans of one post; each trace of it is unstored or claimed, until it is stored."""

    block: SpanBlock
    rows: Mapping[str, Rows]  # of each trace
    needed: int  # by how many traces that memory holds
    unstored: dict[str, Rows]  # a commit stores them
    claimed: dict[str, Rows] = field(default_factory=dict)  # their attribution does
    accounted: set[str] = field(default_factory=set)  # of the unstored: attributed already
    is_in_journal: bool = False
    is_committing: bool = False

    @property
    def nbytes(self) -> int:
        """The memory that it takes, with what is noted of each trace."""
        return self.block.nbytes + _POST_BYTES + _TRACE_BYTES * len(self.rows)


@dataclass(slots=True, eq=False)
class _Trace:
    """Where the spans of a trace are."""

    posts: list[_Post] = field(default_factory=list)  # that memory holds, as they came
    claim: list[_Post] | None = None  # those whose spans its attribution stores
    taken: Parts | None = None  # of which it is made


class Posts:
    """Posts that memory holds, and those of which not everything is stored.

    Beyond `max_bytes` the oldest posts leave memory: their traces are read from the store. No
    thread, no lock, no I/O.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.bytes = 0
        self.let_go = 0  # spans, for want of room
        self._max_bytes = max_bytes
        self._held: dict[int, _Post] = {}  # by the identity of their block, as they came
        self._unstored: dict[int, _Post] = {}  # likewise
        self._traces: dict[str, _Trace] = {}
        self._written: list[SpanBlock] = []
        self._urgent: list[SpanBlock] = []

    def add(self, block: SpanBlock, rows_by_trace: Mapping[str, Rows]) -> Sequence[str]:
        """Take a post; the traces of which some spans left memory for it."""
        let_go: list[str] = []
        if not rows_by_trace:
            return let_go
        post = _Post(block, rows_by_trace, len(rows_by_trace), dict(rows_by_trace))
        self._held[id(block)] = self._unstored[id(block)] = post
        self.bytes += post.nbytes
        for trace_id in rows_by_trace:
            self._traces.setdefault(trace_id, _Trace()).posts.append(post)
        while self.bytes > self._max_bytes:
            oldest = next(iter(self._held.values()))
            self.let_go += oldest.block.count
            let_go += oldest.rows
            self.remove(oldest.block)
        return let_go

    def in_journal(self, block: SpanBlock) -> None:
        """Note that a post outlives this process, and can wait for the ledgers of its traces."""
        if post := self._unstored.get(id(block)):
            post.is_in_journal = True

    def remove(self, block: SpanBlock) -> None:
        """Let a post leave memory, if it is held."""
        post = self._held.get(id(block))
        if post is None:
            return
        self._forget(post)
        for trace_id in post.rows:
            if (trace := self._traces.get(trace_id)) and post in trace.posts:
                trace.posts.remove(post)
                self._tidy(trace_id, trace)

    def release(self, trace_ids: Iterable[str]) -> None:
        """Let traces leave memory."""
        for trace_id in trace_ids:
            if (trace := self._traces.get(trace_id)) is None:
                continue
            for post in trace.posts:
                post.needed -= 1
                if not post.needed:
                    self._forget(post)
            trace.posts = []
            self._tidy(trace_id, trace)

    def count(self, trace_id: str) -> int:
        """How many spans of a trace are held, as often as they came."""
        return sum([len(rows) for _, rows in self.parts(trace_id)])

    def parts(self, trace_id: str) -> Parts:
        """Where the spans of a trace are, in the order in which they came."""
        trace = self._traces.get(trace_id)
        return [] if trace is None else [(one.block, one.rows[trace_id]) for one in trace.posts]

    def claim(self, trace_id: str, count: int) -> bool:
        """Leave the spans of a trace to its attribution, if all of them are at hand.

        Args:
            trace_id: The trace.
            count: How many spans it has.

        Returns:
            Whether they are. False: memory lacks some, no journal holds them, or a commit has
            begun; the posts are urgent then.
        """
        trace = self._traces.get(trace_id)
        posts = [one for one in trace.posts if trace_id in one.unstored] if trace else []
        is_free = not any(one.is_committing or not one.is_in_journal for one in posts)
        if trace is None or self.count(trace_id) != count or not is_free:
            self.urge(trace_id)
            return False
        for post in posts:
            post.claimed[trace_id] = post.unstored.pop(trace_id)
        trace.claim = posts
        return True

    def is_claimed(self, trace_id: str) -> bool:
        """Tell whether the attribution of a trace may have spans that are not stored."""
        trace = self._traces.get(trace_id)
        return trace is not None and trace.claim is not None

    def take(self, trace_ids: Iterable[str]) -> None:
        """Note that traces are attributed, those that are claimed from what is here now."""
        for trace_id in filter(self.is_claimed, trace_ids):
            self._traces[trace_id].taken = self.parts(trace_id)

    def taken(self, trace_id: str) -> Parts | None:
        """Where the spans are that the attribution of a claimed trace is made of."""
        trace = self._traces.get(trace_id)
        return None if trace is None else trace.taken

    def claimed(self, trace_ids: Iterable[str]) -> Iterable[tuple[SpanBlock, list[Rows]]]:
        """The spans of traces that their attribution has to store, by block."""
        found: dict[int, tuple[SpanBlock, list[Rows]]] = {}
        for trace_id in filter(self.is_claimed, trace_ids):
            for post in self._traces[trace_id].claim or ():
                _, rows = found.setdefault(id(post), (post.block, []))
                rows.append(post.claimed[trace_id])
        return found.values()

    def written(self, trace_ids: Iterable[str]) -> None:
        """Note that the attribution of traces has stored what it had of them."""
        for trace_id in trace_ids:
            for post in self._end_claim(trace_id):
                del post.claimed[trace_id]
                if not (post.unstored or post.claimed):
                    del self._unstored[id(post.block)]
                    self._written.append(post.block)

    def give_back(self, trace_ids: Iterable[str], *, accounted: bool) -> None:
        """Leave to a commit what the attribution of traces had and has not stored.

        Args:
            trace_ids: The traces.
            accounted: They are attributed: what becomes of their spans changes no account.
        """
        for trace_id in trace_ids:
            for post in self._end_claim(trace_id):
                post.unstored[trace_id] = post.claimed.pop(trace_id)
                if accounted:
                    post.accounted.add(trace_id)
            if (trace := self._traces.get(trace_id)) is not None:
                trace.taken = None
                self._tidy(trace_id, trace)

    def take_written(self) -> Sequence[SpanBlock]:
        """The posts that attributions have stored to the last span, since the last call."""
        found, self._written = self._written, []
        return found

    def urge(self, trace_id: str) -> None:
        """Note that a trace is waited for, which a commit has to store."""
        trace = self._traces.get(trace_id)
        posts = () if trace is None else trace.posts
        self._urgent += [post.block for post in posts if trace_id in post.unstored]

    def take_urgent(self) -> Sequence[SpanBlock]:
        """The posts of traces that are waited for, since the last call."""
        found, self._urgent = self._urgent, []
        return found

    def begin(self, block: SpanBlock) -> Sequence[Rows] | None:
        """Begin to commit a post: what of it is not stored; None: attributions have some of it."""
        post = self._unstored.get(id(block))
        if post is None:
            return ()
        if post.claimed:
            return None
        post.is_committing = True
        return list(post.unstored.values())

    def again(self, block: SpanBlock) -> None:
        """Note that a commit has failed, and will be tried again."""
        if post := self._unstored.get(id(block)):
            post.is_committing = False

    def end(self, block: SpanBlock) -> Mapping[str, int]:
        """Note that a post is stored, or never will be.

        Returns:
            How many spans that is of each trace, those apart that were attributed.
        """
        post = self._unstored.pop(id(block), None)
        if post is None:
            return {}
        unstored, post.unstored = post.unstored, {}
        return {one: len(rows) for one, rows in unstored.items() if one not in post.accounted}

    def _forget(self, post: _Post) -> None:
        if self._held.pop(id(post.block), None) is not None:
            self.bytes -= post.nbytes

    def _end_claim(self, trace_id: str) -> Collection[_Post]:
        trace = self._traces.get(trace_id)
        if trace is None or trace.claim is None:
            return ()
        posts, trace.claim = trace.claim, None
        self._tidy(trace_id, trace)
        return posts

    def _tidy(self, trace_id: str, trace: _Trace) -> None:
        if not (trace.posts or trace.claim or trace.taken):
            self._traces.pop(trace_id, None)
