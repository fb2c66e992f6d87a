"""What only the journal and memory hold, and who stores it: a commit, or the attribution."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from latencytrace.service.otlp.span_block import SpanBlock, taken

Rows = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class _Post:
    """What came together; each trace of it is in one of the two, until it is stored."""

    block: SpanBlock
    left: dict[str, Rows]  # a commit stores them
    claimed: dict[str, Rows] = field(default_factory=dict)  # their attribution does
    accounted: set[str] = field(default_factory=set)  # of `left`: attributed already
    is_in_journal: bool = False
    is_committing: bool = False


class Unstored:
    """The posts of which not everything is stored.

    A span is written once: with the ledger of its request where that is made soon, for it is
    known then which table it belongs to, and else by a commit.

    Args:
        lock: Held by whoever claims, gives back or ends; the other methods take it.
    """

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._posts: dict[int, _Post] = {}  # by the identity of their block
        self._claims: dict[str, list[_Post]] = {}  # by trace
        self._written: list[SpanBlock] = []
        self._urgent: list[SpanBlock] = []

    def add(self, block: SpanBlock, rows_by_trace: Mapping[str, Rows]) -> None:
        """Take note of a post."""
        if rows_by_trace:
            self._posts[id(block)] = _Post(block, dict(rows_by_trace))

    def in_journal(self, block: SpanBlock) -> None:
        """Note that a post outlives this process, and can wait for the ledgers of its traces."""
        with self._lock:
            if post := self._posts.get(id(block)):
                post.is_in_journal = True

    def claim(self, trace_id: str, blocks: Iterable[SpanBlock]) -> bool:
        """Leave the spans of a trace in these blocks to its attribution.

        Returns:
            Whether it has all of them that are not stored. False: a commit has begun.
        """
        posts: list[_Post] = []
        for block in blocks:
            post = self._posts.get(id(block))
            if post is not None and trace_id in post.left:
                if post.is_committing or not post.is_in_journal:
                    return False
                posts.append(post)
        for post in posts:
            post.claimed[trace_id] = post.left.pop(trace_id)
        self._claims[trace_id] = posts
        return True

    def is_claimed(self, trace_id: str) -> bool:
        """Whether the attribution of a trace has spans that are not stored."""
        return trace_id in self._claims

    def claimed(self, trace_ids: Iterable[str]) -> Sequence[SpanBlock]:
        """The spans of traces that their attribution has to store, as blocks."""
        rows_by_block: dict[int, tuple[SpanBlock, list[Rows]]] = {}
        with self._lock:
            for trace_id in trace_ids:
                for post in self._claims.get(trace_id, ()):
                    _, rows = rows_by_block.setdefault(id(post), (post.block, []))
                    rows.append(post.claimed[trace_id])
        return [
            part_of(block, np.sort(np.concatenate(rows))) for block, rows in rows_by_block.values()
        ]

    def written(self, trace_ids: Iterable[str]) -> None:
        """Note that the attribution of traces has stored what it had of them."""
        with self._lock:
            posts = {one: self._claims.pop(one, ()) for one in trace_ids}
            for post, trace_id in ((post, one) for one, some in posts.items() for post in some):
                del post.claimed[trace_id]
                if not (post.left or post.claimed):
                    del self._posts[id(post.block)]
                    self._written.append(post.block)

    def give_back(self, trace_ids: Iterable[str], *, accounted: bool) -> None:
        """Leave to a commit what the attribution of traces had and has not stored.

        Args:
            trace_ids: They.
            accounted: They are attributed: what becomes of their spans changes no account.
        """
        for trace_id in trace_ids:
            for post in self._claims.pop(trace_id, ()):
                post.left[trace_id] = post.claimed.pop(trace_id)
                if accounted:
                    post.accounted.add(trace_id)

    def urge(self, trace_id: str, blocks: Iterable[SpanBlock]) -> None:
        """Note that a trace is waited for, which a commit has to store."""
        known = (self._posts.get(id(block)) for block in blocks)
        self._urgent += [post.block for post in known if post and trace_id in post.left]

    def take_urgent(self) -> Sequence[SpanBlock]:
        """The posts of traces that are waited for, since the last call."""
        with self._lock:
            found, self._urgent = self._urgent, []
        return found

    def take_written(self) -> Sequence[SpanBlock]:
        """The posts that attributions have stored to the last span, since the last call."""
        with self._lock:
            found, self._written = self._written, []
        return found

    def begin(self, block: SpanBlock) -> SpanBlock | None:
        """Begin to commit a post: what of it is not stored; None: attributions have some of it."""
        with self._lock:
            post = self._posts.get(id(block))
            if post is None:
                return part_of(block, np.zeros(0, np.int64))
            if post.claimed:
                return None
            post.is_committing = True
        if sum(map(len, post.left.values())) == block.count:
            return block
        return part_of(block, np.sort(np.concatenate(list(post.left.values()))))

    def again(self, block: SpanBlock) -> None:
        """Note that a commit has failed, and will be tried again."""
        if post := self._posts.get(id(block)):
            post.is_committing = False

    def end(self, block: SpanBlock) -> Mapping[str, int]:
        """Let go of a post, for it is stored, or never will be.

        Returns:
            How many spans that is of each trace, those apart that were attributed.
        """
        post = self._posts.pop(id(block), None)
        if post is None:
            return {}
        return {one: len(rows) for one, rows in post.left.items() if one not in post.accounted}


def part_of(block: SpanBlock, rows: Rows) -> SpanBlock:
    """Some spans of a block, as a block."""
    return replace(block, table=taken(block.table, rows))
