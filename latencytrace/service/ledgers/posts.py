"""Posts in memory, from their arrival until all of their spans are stored and in ledgers.

Memory holds the spans as columns until their traces have ledgers, so that attribution need not
read them from the store. Each span is written once. The attribution of its trace claims it and
writes it with the ledger, because only then its table is known; a commit writes what is not
claimed in time.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from latencytrace.service.ledgers.span_parts import Parts, Rows
from latencytrace.service.otlp.span_block import SpanBlock

MAX_BYTES: Final = 512 * 1024 * 1024

_POST_BYTES: Final = 2048
_TRACE_BYTES: Final = 200


@dataclass(slots=True, eq=False)
class _Post:
    """The spans of one post. Each of its traces is unstored or claimed until it is stored."""

    block: SpanBlock
    rows: Mapping[str, Rows]  # by trace
    needed: int  # how many traces in memory need it
    unstored: dict[str, Rows]  # by trace; to be stored by a commit
    claimed: dict[str, Rows] = field(default_factory=dict)  # to be stored by attributions
    accounted: set[str] = field(default_factory=set)  # unstored traces that were attributed
    is_in_journal: bool = False

    @property
    def nbytes(self) -> int:
        """Memory of the post and of its entries, in bytes."""
        return self.block.nbytes + _POST_BYTES + _TRACE_BYTES * len(self.rows)


@dataclass(slots=True, eq=False)
class _Trace:
    """The posts of a trace."""

    posts: list[_Post] = field(default_factory=list)  # in memory, in order of arrival
    claim: list[_Post] | None = None  # whose spans of the trace its attribution stores
    taken: Parts | None = None  # the spans that are being attributed


class Posts:
    """Posts that are in memory, and posts that are not completely stored.

    Beyond `max_bytes` the oldest posts leave memory, and their traces are read from the store. It
    has no thread and no lock, and does no I/O.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.bytes = 0
        self.let_go = 0  # spans that left memory because it was full
        self._max_bytes = max_bytes
        # By the `id` of their block, in order of arrival.
        self._held: dict[int, _Post] = {}
        self._unstored: dict[int, _Post] = {}
        self._committing: set[str] = set()  # traces with spans in the commit that is under way
        self._traces: dict[str, _Trace] = {}
        self._written: list[SpanBlock] = []
        self._urgent: list[SpanBlock] = []

    def add(self, block: SpanBlock, rows_by_trace: Mapping[str, Rows]) -> Sequence[str]:
        """Add a post; return the traces of posts that left memory to make room."""
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
        """Note that a post is durable, so that it can wait for the ledgers of its traces."""
        if post := self._unstored.get(id(block)):
            post.is_in_journal = True

    def remove(self, block: SpanBlock) -> None:
        """Remove a post from memory."""
        post = self._held.get(id(block))
        if post is None:
            return
        self._forget(post)
        for trace_id in post.rows:
            if (trace := self._traces.get(trace_id)) and post in trace.posts:
                trace.posts.remove(post)
                self._tidy(trace_id, trace)

    def release(self, trace_ids: Iterable[str]) -> None:
        """Remove traces from memory, and each post that no other trace needs."""
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
        """Return how many spans of a trace are in memory, duplicates included."""
        return sum([len(rows) for _, rows in self.parts(trace_id)])

    def parts(self, trace_id: str) -> Parts:
        """Return the spans of a trace in memory, in order of arrival."""
        trace = self._traces.get(trace_id)
        return [] if trace is None else [(one.block, one.rows[trace_id]) for one in trace.posts]

    def claim(self, trace_id: str, count: int) -> bool:
        """Have the attribution of a trace with so many spans store them, instead of a commit.

        Returns:
            False: some are not in memory or not in the journal, or a commit has begun. Its posts
            are then committed first.
        """
        trace = self._traces.get(trace_id)
        posts = [one for one in trace.posts if trace_id in one.unstored] if trace else []
        is_free = trace_id not in self._committing and all(one.is_in_journal for one in posts)
        if trace is None or self.count(trace_id) != count or not is_free:
            self.urge(trace_id)
            return False
        for post in posts:
            post.claimed[trace_id] = post.unstored.pop(trace_id)
        trace.claim = posts
        return True

    def is_claimed(self, trace_id: str) -> bool:
        """Return whether the attribution of a trace stores its spans."""
        trace = self._traces.get(trace_id)
        return trace is not None and trace.claim is not None

    def take(self, trace_ids: Iterable[str]) -> None:
        """Note that the attribution of traces begins; claimed ones use the spans in memory now."""
        for trace_id in filter(self.is_claimed, trace_ids):
            self._traces[trace_id].taken = self.parts(trace_id)

    def taken(self, trace_id: str) -> Parts | None:
        """Return the spans that the attribution of a claimed trace uses; None: not claimed."""
        trace = self._traces.get(trace_id)
        return None if trace is None else trace.taken

    def claimed(self, trace_ids: Iterable[str]) -> Iterable[tuple[SpanBlock, list[Rows]]]:
        """Return the spans that the attribution of these traces has to store, by block."""
        found: dict[int, tuple[SpanBlock, list[Rows]]] = {}
        for trace_id in filter(self.is_claimed, trace_ids):
            for post in self._traces[trace_id].claim or ():
                _, rows = found.setdefault(id(post), (post.block, []))
                rows.append(post.claimed[trace_id])
        return found.values()

    def written(self, trace_ids: Iterable[str]) -> None:
        """Note that the attribution of traces has stored their claimed spans."""
        for trace_id in trace_ids:
            for post in self._end_claim(trace_id):
                del post.claimed[trace_id]
                if not (post.unstored or post.claimed):
                    del self._unstored[id(post.block)]
                    self._written.append(post.block)

    def give_back(self, trace_ids: Iterable[str], *, accounted: bool) -> None:
        """Have a commit store spans that were claimed and not stored.

        Spans that are `accounted`, because their trace was attributed, are not counted by `end`.
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
        """Return the posts that attributions stored completely since the last call."""
        found, self._written = self._written, []
        return found

    def urge(self, trace_id: str) -> None:
        """Have the posts of a trace committed soon, because its attribution waits for them."""
        trace = self._traces.get(trace_id)
        posts = () if trace is None else trace.posts
        self._urgent += [post.block for post in posts if trace_id in post.unstored]

    def take_urgent(self) -> Sequence[SpanBlock]:
        """Return the posts that must be committed soon, since the last call."""
        found, self._urgent = self._urgent, []
        return found

    def begin(
        self, block: SpanBlock, attributing: Callable[[Iterable[str]], Collection[str]]
    ) -> Sequence[Rows] | None:
        """Begin to commit a post.

        Args:
            block: The post.
            attributing: Returns those of some traces that are being attributed. Spans that are
                stored before the ledger of their trace would count as attributed at the next
                start.

        Returns:
            Its rows that are not stored; None: attributions are under way of traces of the post.
        """
        post = self._unstored.get(id(block))
        if post is None:
            return ()
        if post.claimed or attributing(post.unstored):
            return None
        self._committing.update(post.unstored)
        return list(post.unstored.values())

    def again(self, block: SpanBlock) -> None:
        """Note that the commit of a post failed and will be tried again."""
        if post := self._unstored.get(id(block)):
            self._committing.difference_update(post.unstored)

    def is_committing(self, trace_id: str) -> bool:
        """Return whether a commit of spans of a trace is under way."""
        return trace_id in self._committing

    def end(self, block: SpanBlock) -> Mapping[str, int]:
        """Forget a post that was stored or rejected; return its unattributed spans by trace."""
        post = self._unstored.pop(id(block), None)
        if post is None:
            return {}
        unstored, post.unstored = post.unstored, {}
        self._committing.difference_update(unstored)
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
