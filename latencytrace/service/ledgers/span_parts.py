"""Spans of traces as rows of blocks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.repairs.duplicates import rank
from latencytrace.model import Span
from latencytrace.service.otlp.span_block import SpanBlock, joined, taken

_JOINED_SPANS: Final = 20_000

Rows = NDArray[np.int64]
Parts = Sequence[tuple[SpanBlock, Rows]]
NONE_HELD: Final[Mapping[str, Parts]] = MappingProxyType({})


def rooted_in(traces: Iterable[Parts]) -> set[str]:
    """Return the ids of the traces that have a span without a parent."""
    found: set[str] = set()
    for block, rows in by_block(traces):
        roots = rows[block.table["parent_id"][rows] == 0]
        digits = block.trace_id[roots].astype(">u8").tobytes().hex()
        found.update(digits[at : at + 32] for at in range(0, len(digits), 32))
    return found


def part_of(block: SpanBlock, rows: Sequence[Rows]) -> SpanBlock:
    """Return some rows of a block as a block, in the same order."""
    if sum(map(len, rows)) == block.count:
        return block
    chosen = np.sort(np.concatenate([np.zeros(0, np.int64), *rows]))
    return replace(block, table=taken(block.table, chosen))


def by_block(traces: Iterable[Parts]) -> list[tuple[SpanBlock, Rows]]:
    """Return the rows of several traces, grouped by block."""
    found: dict[int, tuple[SpanBlock, list[Rows]]] = {}
    for parts in traces:
        for block, rows in parts:
            found.setdefault(id(block), (block, []))[1].append(rows)
    return [(block, np.concatenate(rows)) for block, rows in found.values()]


def in_few_blocks(parts: Parts, below: int = _JOINED_SPANS) -> Iterator[tuple[SpanBlock, Rows]]:
    """Yield the same rows in fewer, larger blocks; blocks of which few rows are wanted stay.

    Many small blocks cost ten times as much as a large one.

    Args:
        parts: The blocks and their rows.
        below: Blocks of so many spans stay, too.
    """
    few: list[tuple[SpanBlock, Rows]] = []
    spans = 0
    for block, rows in parts:
        if 2 * len(rows) < block.count or block.count >= below:
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
    """Join blocks; their rows are offsets in the joined block already."""
    return joined([block for block, _ in parts]), np.concatenate([rows for _, rows in parts])


def spans_in(parts: Parts) -> Iterator[Span]:
    """Yield the spans of a trace, as often as they came."""
    for block, rows in parts:
        yield from block.spans(rows)


def once(spans: Iterable[Span]) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the spans of a trace, of copies the one that stands; and a differing copy of each.

    Spans with one id but different services or kinds are no copies.
    """
    found: dict[tuple[str, str, str], Span] = {}
    copies: dict[tuple[str, str, str], Span] = {}
    for span in spans:
        key = span.span_id, span.service, span.kind
        known = found.setdefault(key, span)
        if known is span or known == span:
            continue
        copies[key], found[key] = sorted((known, span), key=rank)
    return tuple(found.values()), tuple(copies.values())
