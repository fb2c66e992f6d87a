"""Whole traces as a batch for the analysis, out of the columns of posts: arrays only.

0.5 µs of CPU a span (`tests/benchmarks/bench_ingest.py`).
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.keys import COUNTS
from latencytrace.model import AttributeValue, Span
from latencytrace.model.span_batch import SpanBatch
from latencytrace.service.otlp.scanner import find_shapes
from latencytrace.service.otlp.shapes import MOST_NEW_SHAPES, SHAPES
from latencytrace.service.otlp.span_block import (
    NO_SHAPE,
    NOT_SHAPED,
    VALUES,
    Numbers,
    Records,
    SpanBlock,
    chained,
    ranges,
    taken,
)
from latencytrace.service.otlp.values import Form

Part = tuple[SpanBlock, Numbers]

_ID_DIGITS: Final = 32
_HIT: Final = np.dtype(
    [
        ("row", "i8"),
        ("value", "i8"),
        ("size", "i4"),
        ("code", "i4"),
        ("form", "i4"),
        ("part", "i4"),
    ]
)
_IN_COLUMNS: Final = (Form.STRING, Form.INT, Form.DOUBLE, Form.MAP, Form.BYTES)
_IS_IN_COLUMNS: Final = np.isin(np.arange(max(Form) + 1), _IN_COLUMNS)


def batch_of(parts: Sequence[Part]) -> SpanBatch:
    """The spans of some rows of some blocks, ordered by trace, then as they come."""
    _forget_shapes(parts)
    tables = [taken(block.table, rows) for block, rows in parts]
    spans = chained(tables)
    order = np.lexsort((spans["trace_low"], spans["trace_high"]))
    spans = taken(spans, order)
    part = np.repeat(np.arange(len(parts)), [len(table) for table in tables])[order]
    row = np.concatenate([rows for _, rows in parts])[order]
    _number_shapes(parts, spans, part, row)
    shapes = SHAPES.spans
    SHAPES.renew(int(np.count_nonzero(spans["shape"] == NO_SHAPE)))  # for the next batch
    counts, packed = _varying(parts, tables, order)
    trace_ids, first = _traces(spans)
    return SpanBatch(
        trace_ids=trace_ids,
        first=first,
        span_id=np.ascontiguousarray(spans["span_id"]),
        parent_id=np.ascontiguousarray(spans["parent_id"]),
        start_ns=_times(spans["start_ns"]),
        end_ns=_times(spans["end_ns"]),
        shape=np.ascontiguousarray(spans["shape"]),
        shapes=shapes,
        counts=counts,
        packed=packed,
        span=_reader(parts, part, row),
        stated=np.flatnonzero(spans["state"]),
        trace_state=_states(parts, part, spans["state"]),
    )


def _reader(parts: Sequence[Part], part: Numbers, row: Numbers) -> Callable[[int], Span]:
    return lambda at: parts[part[at]][0].spans([int(row[at])])[0]


def _states(
    parts: Sequence[Part], part: Numbers, words: NDArray[np.int32]
) -> Callable[[int], str]:
    return lambda at: parts[part[at]][0].word(int(words[at]))


def _forget_shapes(parts: Sequence[Part]) -> None:
    """Forget the numbers of shapes of an earlier generation."""
    for block, _ in parts:
        if block.generation != [SHAPES.generation]:
            block.table["shape"] = NOT_SHAPED
            block.generation[0] = SHAPES.generation


def _number_shapes(parts: Sequence[Part], spans: Records, part: Numbers, row: Numbers) -> None:
    """Number the shapes of spans that were decoded the plain way."""
    missing = np.flatnonzero(spans["shape"] == NOT_SHAPED)
    for number in np.unique(part[missing]).tolist():
        block = parts[number][0]
        if find_shapes(block):  # of all of its spans: other keys vary by now
            of_block = np.flatnonzero(part == number)
            spans["shape"][of_block] = block.table["shape"][row[of_block]]
        else:
            _number_one_by_one(block, spans, missing[part[missing] == number].tolist(), row)


def _number_one_by_one(
    block: SpanBlock, spans: Records, missing: Sequence[int], row: Numbers
) -> None:
    learned = SHAPES.learned
    block.words["code"] = [
        SHAPES.code(block.word_bytes(word), learned) for word in range(len(block.words))
    ]
    before = len(SHAPES.spans)
    for at in missing:
        if len(SHAPES.spans) - before >= MOST_NEW_SHAPES:
            spans["shape"][at] = NO_SHAPE
            continue
        number = SHAPES.number(block.spans([int(row[at])])[0], learned, SHAPES.generation)
        block.table["shape"][row[at]] = spans["shape"][at] = number


def _traces(spans: Records) -> tuple[Sequence[str], Numbers]:
    """The ids of traces, and where each begins."""
    ids = np.stack([spans["trace_high"], spans["trace_low"]], axis=1)
    is_new = np.ones(len(ids), np.bool_)
    is_new[1:] = np.any(ids[1:] != ids[:-1], axis=1)
    digits = ids[is_new].astype(">u8").tobytes().hex()
    names = [digits[at : at + _ID_DIGITS] for at in range(0, len(digits), _ID_DIGITS)]
    return names, np.append(np.flatnonzero(is_new), len(ids))


def _times(times_ns: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Times; -1 where they do not fit."""
    signed: NDArray[np.int64] = times_ns.astype(np.int64)
    return np.where(signed < 0, np.int64(-1), signed)


_Counts = dict[str, tuple[Numbers, Numbers]]
_Packed = dict[str, tuple[Numbers, Sequence[AttributeValue]]]


def _varying(
    parts: Sequence[Part], tables: Sequence[Records], order: Numbers
) -> tuple[_Counts, _Packed]:
    """The columns of values that belong to no shape."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    found: list[Records] = []
    before = 0
    for number, ((block, _), table) in enumerate(zip(parts, tables, strict=True)):
        found.append(_hits(block, table, number, place[before : before + len(table)]))
        before += len(table)
    hits = chained(found)
    # One number each, for those are sorted fastest: of a key that comes twice, the last is last.
    keys = hits["code"].astype(np.int64) * len(order) + hits["row"]
    hits = taken(hits, np.argsort(keys * len(hits) + np.arange(len(hits))))
    edges = np.flatnonzero(np.diff(hits["code"])) + 1
    counts: _Counts = {}
    packed: _Packed = {}
    for of_key in np.split(hits, edges) if len(hits) else ():
        rows = of_key["row"]
        last = taken(of_key, np.flatnonzero(np.append(rows[1:] != rows[:-1], True)))
        key = SHAPES.varying[int(last["code"][0]) - 1]
        if key in COUNTS:
            chosen = last[last["form"] == Form.INT]
            if len(chosen):
                counts[key] = (chosen["row"].copy(), chosen["value"].copy())
        else:
            chosen = last[_IS_IN_COLUMNS[last["form"]]]
            if len(chosen):
                packed[key] = (chosen["row"].copy(), _values(parts, chosen))
    return counts, packed


def _hits(block: SpanBlock, table: Records, part: int, place: Numbers) -> Records:
    """The varying attributes of some spans."""
    counts = table["pair_count"]
    pairs = ranges(table["pairs"], counts)
    codes = block.words["code"][block.pairs["key"][pairs]]
    varying = np.flatnonzero(codes)
    chosen = taken(block.pairs, pairs[varying])
    hits = np.empty(len(varying), _HIT)
    hits["row"] = np.repeat(place, counts)[varying]
    hits["code"] = codes[varying]
    hits["part"] = part
    for name in ("value", "size", "form"):
        hits[name] = chosen[name]
    return hits


def _values(parts: Sequence[Part], hits: Records) -> Sequence[AttributeValue]:
    if np.all(hits["form"] == Form.DOUBLE):
        doubles: list[float] = hits["value"].copy().view(np.float64).tolist()
        return doubles
    if np.all(hits["form"] == Form.INT):
        numbers: list[int] = hits["value"].tolist()
        return numbers
    return [
        VALUES[form](value, parts[part][0].texts[value : value + size])
        for _, value, size, _, form, part in hits.tolist()
    ]
