"""The spans of open traces, in memory as columns, so that no store is asked for them."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.model import Span
from latencytrace.service.otlp.span_block import SpanBlock, joined

MAX_BYTES: Final = 512 * 1024 * 1024

_POST_BYTES: Final = 2048
_TRACE_BYTES: Final = 200
_JOINED_SPANS: Final = 20_000

Rows = NDArray[np.int64]
Parts = Sequence[tuple[SpanBlock, Rows]]
NONE_HELD: Final[Mapping[str, Parts]] = MappingProxyType({})


@dataclass(slots=True, eq=False)
class _Post:
    """What came together."""

    block: SpanBlock
    trace_ids: Collection[str]
    left: int  # of its traces, how many still need it

    @property
    def nbytes(self) -> int:
        """The memory that it takes, with what is noted of each trace."""
        return self.block.nbytes + _POST_BYTES + _TRACE_BYTES * len(self.trace_ids)


class HeldSpans:
    """Spans from their arrival until their trace has its ledger.

    Beyond `max_bytes` the oldest posts are let go: their traces are read from the store. No
    thread, no lock, no I/O.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.bytes = 0
        self.let_go = 0  # spans, for want of room
        self._max_bytes = max_bytes
        self._posts: OrderedDict[int, _Post] = OrderedDict()  # by the identity of their block
        self._traces: dict[str, list[tuple[_Post, Rows]]] = {}

    def add(self, block: SpanBlock, rows_by_trace: Mapping[str, Rows]) -> Sequence[str]:
        """Hold the spans of a post; the traces of which some were let go for it."""
        let_go: list[str] = []
        if not rows_by_trace:
            return let_go
        post = _Post(block, rows_by_trace.keys(), len(rows_by_trace))
        self._posts[id(block)] = post
        self.bytes += post.nbytes
        for trace_id, rows in rows_by_trace.items():
            self._traces.setdefault(trace_id, []).append((post, rows))
        while self.bytes > self._max_bytes:
            _, oldest = next(iter(self._posts.items()))
            self.let_go += oldest.block.count
            let_go += oldest.trace_ids
            self.remove(oldest.block)
        return let_go

    def remove(self, block: SpanBlock) -> None:
        """Let go of a post, if it is held."""
        if id(block) not in self._posts:
            return
        post = self._posts.pop(id(block))
        self.bytes -= post.nbytes
        for trace_id in post.trace_ids:
            parts = [part for part in self._traces.get(trace_id, ()) if part[0] is not post]
            if parts:
                self._traces[trace_id] = parts
            else:
                self._traces.pop(trace_id, None)

    def release(self, trace_ids: Collection[str]) -> None:
        """Let go of traces."""
        for trace_id in trace_ids:
            for post, _ in self._traces.pop(trace_id, ()):
                post.left -= 1
                if not post.left and id(post.block) in self._posts:
                    del self._posts[id(post.block)]
                    self.bytes -= post.nbytes

    def count(self, trace_id: str) -> int:
        """How many spans of a trace are held, as often as they came."""
        return sum(len(rows) for _, rows in self._traces.get(trace_id, ()))

    def parts(self, trace_id: str) -> Parts:
        """Where the spans of a trace are, in the order in which they came."""
        return [(post.block, rows) for post, rows in self._traces.get(trace_id, ())]


def rooted_in(traces: Iterable[Parts]) -> set[str]:
    """Those of the traces of which a span without a parent is held."""
    found: set[str] = set()
    for block, rows in by_block(traces):
        roots = rows[block.table["parent_id"][rows] == 0]
        digits = block.trace_id[roots].astype(">u8").tobytes().hex()
        found.update(digits[at : at + 32] for at in range(0, len(digits), 32))
    return found


def by_block(traces: Iterable[Parts]) -> list[tuple[SpanBlock, Rows]]:
    """The rows of several traces, those of one block together."""
    found: dict[int, tuple[SpanBlock, list[Rows]]] = {}
    for parts in traces:
        for block, rows in parts:
            found.setdefault(id(block), (block, []))[1].append(rows)
    return [(block, np.concatenate(rows)) for block, rows in found.values()]


def in_few_blocks(parts: Parts) -> Iterator[tuple[SpanBlock, Rows]]:
    """The same rows in blocks joined together, where most of these are wanted.

    To write many small blocks costs ten times as much as one of their size.
    """
    few: list[tuple[SpanBlock, Rows]] = []
    spans = 0
    for block, rows in parts:
        if 2 * len(rows) < block.count:
            yield block, rows
            continue
        few.append((block, rows + spans))
        spans += block.count
        if spans >= _JOINED_SPANS:
            yield _joined(few)
            few, spans = [], 0
    if few:
        yield _joined(few)


def _joined(parts: Parts) -> tuple[SpanBlock, Rows]:
    """Blocks as one; their rows are counted through already."""
    return joined([block for block, _ in parts]), np.concatenate([rows for _, rows in parts])


def spans_in(parts: Parts) -> tuple[Span, ...]:
    """The spans of a trace, each once: of those that differ, the one that lasts longer.

    As `Store.arrived` tells them.
    """
    return spans_and_copies(parts)[0]


def spans_and_copies(parts: Parts) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """The same; and where a shorter span of other content has the id of one, such a span.

    Spans of different services or kinds are no copies of each other.
    """
    found: dict[tuple[str, str, str], Span] = {}
    copies: dict[tuple[str, str, str], Span] = {}
    for block, rows in parts:
        for span in block.spans(rows):
            key = span.span_id, span.service, span.kind
            known = found.setdefault(key, span)
            if known is span or known == span:
                continue
            found[key], copies[key] = sorted((known, span), key=_order)
    return tuple(found.values()), tuple(copies.values())


def _order(span: Span) -> tuple[int, int]:
    return (span.start_ns - span.end_ns, span.start_ns)
