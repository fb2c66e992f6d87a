"""What engines tell in words of their own, of which each span is asked by itself."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns import told
from latencytrace.analysis.columns.facts import TELLS_TIMES, TELLS_TOKENS, FactsOfBatch
from latencytrace.analysis.dialects.engine import Times
from latencytrace.analysis.tokens.counts import (
    BATCH_SIZE,
    CACHED,
    FINISH_REASON,
    INPUT,
    MODEL,
    OUTPUT,
    count,
    value,
)
from latencytrace.analysis.trace.known_engines import engine_of, generation_of
from latencytrace.model import Span
from latencytrace.model.span_batch import SpanBatch
from latencytrace.model.span_columns import STAGES

_Column = NDArray[np.int64]

MOST_COUNTED = 1 << 31  # what sums and products stay exact with
_MOST_NS = 1 << 48  # likewise; three days
_NUMBERS = {stage: number for number, stage in enumerate(STAGES)}
_COUNTS = ((told.SAID_INPUT, INPUT), (told.SAID_OUTPUT, OUTPUT), (told.SAID_CACHED, CACHED))


def add_engines(
    batch: SpanBatch,
    facts: FactsOfBatch,
    said: _Column,
    odd_row: NDArray[np.bool_],
    packed: Sequence[_Column],
) -> Sequence[_Column]:
    """Add what engines tell to what spans say, and to the intervals packed on them.

    Args:
        batch: The spans.
        facts: Of their shapes.
        said: See `told`.
        odd_row: Takes those that tell what cannot be.
        packed: Where the intervals of each span begin; start, end and stage of each.

    Returns:
        The intervals, with those that engines tell. No span has intervals of both kinds.
    """
    tells = facts.table[:, TELLS_TIMES] | facts.table[:, TELLS_TOKENS]
    found: list[tuple[int, int, int, int]] = []
    for row in np.flatnonzero(tells[facts.kind]).tolist():
        span = batch.span(row)
        odd_row[row] |= not _add_tokens(span, said[row])
        engine = engine_of(span)
        times = Times() if engine is None else engine.times(span, ())
        odd_row[row] |= bool(times.faults)
        found += [
            (row, one.start_ns - span.start_ns, one.end_ns - span.start_ns, _NUMBERS[one.stage])
            for one in times.intervals
        ]
    if not found:
        return packed
    begins, intervals = packed
    added = np.array(found, np.int64)
    owners = np.concatenate((np.repeat(np.arange(len(odd_row)), np.diff(begins)), added[:, 0]))
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners, minlength=len(odd_row))
    return [
        np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        np.ascontiguousarray(np.concatenate((intervals, added[:, 1:]))[order]),
    ]


def _add_tokens(span: Span, said: _Column) -> bool:
    """Add what a span tells of tokens; return whether its numbers can be added up here."""
    told_by_it = generation_of(span)
    numbers = [(column, count(span, which), MOST_COUNTED) for column, which in _COUNTS]
    numbers += [
        (told.SAID_DECODED, told_by_it.decode_ns, _MOST_NS),
        (told.SAID_FIRST_TOLD, told_by_it.first_token_ns, _MOST_NS),
    ]
    batch_size = value(span, BATCH_SIZE)
    if batch_size is not None:
        size = batch_size if type(batch_size) is int else MOST_COUNTED
        numbers.append((told.SAID_BATCH_SIZE, size, MOST_COUNTED))
    for column, number, most in numbers:
        if number is not None and abs(number) >= most:
            return False
        said[column] = told.UNKNOWN if number is None else number
    said[told.SAID_MODEL] = value(span, MODEL) is not None
    said[told.SAID_FINISH_REASON] = value(span, FINISH_REASON) is not None
    return True
