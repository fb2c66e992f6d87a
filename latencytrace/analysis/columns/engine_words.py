"""Facts that engines and events tell in words of their own: each such span is asked by itself."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns import reported
from latencytrace.analysis.columns.facts import IS_ENTRY, TELLS_TIMES, TELLS_TOKENS, FactsOfBatch
from latencytrace.analysis.dialects.engine import NOTHING_GENERATED, NOTHING_TOLD, Generation
from latencytrace.analysis.reported import MAX_QUEUED_NS
from latencytrace.analysis.tokens.counts import (
    BATCH_SIZE,
    CACHED,
    FINISH_REASON,
    INPUT,
    MODEL,
    OUTPUT,
    after_events,
    count,
    in_ns,
    value,
)
from latencytrace.analysis.trace.known_engines import as_it_ran, engine_of
from latencytrace.model import Span, Stage, semconv
from latencytrace.model.span_batch import SpanBatch
from latencytrace.model.stage import STAGES

_Column = NDArray[np.int64]

MOST_COUNTED = 1 << 31  # what sums and products stay exact with
_MOST_NS = 1 << 48  # likewise; three days
_QUEUE = STAGES.index(Stage.QUEUE)
_NOTHING = np.zeros(0, np.int64), np.zeros(0, np.int64)
_NUMBERS = {stage: number for number, stage in enumerate(STAGES)}
_COUNTS = (
    (reported.SAID_INPUT, INPUT),
    (reported.SAID_OUTPUT, OUTPUT),
    (reported.SAID_CACHED, CACHED),
)


def add_engines(
    batch: SpanBatch,
    facts: FactsOfBatch,
    said: _Column,
    words: tuple[reported.SaidWords, reported.SaidWords],
    odd_row: NDArray[np.bool_],
    packed: Sequence[_Column],
) -> Sequence[_Column]:
    """Add what engines tell to what spans say, and to the intervals packed on them.

    Args:
        facts: Facts of the spans (n, `FACTS`).
        said: Columns of `analysis.columns.reported` (n, `SAID`).
        words: Take the models and the reasons to finish that engines tell.
        odd_row: Takes spans that tell what cannot be.
        packed: Where the intervals of each span begin; start, end and stage of each.

    Returns:
        The intervals, with the ones that engines tell. No span has intervals of both kinds.
    """
    tells = (facts.of_rows(TELLS_TIMES) | facts.of_rows(TELLS_TOKENS)) != 0
    found: list[tuple[int, int, int, int]] = []
    for row in np.flatnonzero(tells & ~odd_row).tolist():
        span = as_it_ran(batch.span(row))
        engine = engine_of(span)
        generation = NOTHING_GENERATED if engine is None else engine.generation(span)
        odd_row[row] |= not _add_tokens(span, generation, said[row])
        for one, which in zip(words, (MODEL, FINISH_REASON), strict=True):
            one.put(row, value(span, which, generation))
        times = NOTHING_TOLD if engine is None else engine.times(span, ())
        odd_row[row] |= bool(times.faults)
        found += [
            (row, one.start_ns - span.start_ns, one.end_ns - span.start_ns, _NUMBERS[one.stage])
            for one in times.intervals
        ]
    if not found:
        return packed
    begins, intervals = packed
    added = np.array(found, np.int64)
    owners = np.repeat(np.arange(len(odd_row)), np.diff(begins))
    return _joined(intervals, owners, added[:, 1:], added[:, 0], len(odd_row))


def _add_tokens(span: Span, generation: Generation, said: _Column) -> bool:
    """Add what a span tells of tokens; return whether its numbers can be added up here."""
    numbers = [(column, count(span, which, generation), MOST_COUNTED) for column, which in _COUNTS]
    numbers += [
        (reported.SAID_DECODED, generation.decode_ns, _MOST_NS),
        (reported.SAID_FIRST_TOLD, generation.first_token_ns, _MOST_NS),
        (reported.SAID_FIRST_EVENT, after_events(span), _MOST_NS),
    ]
    batch_size = value(span, BATCH_SIZE, generation)
    if batch_size is not None:
        size = batch_size if type(batch_size) is int else MOST_COUNTED
        numbers.append((reported.SAID_BATCH_SIZE, size, MOST_COUNTED))
    for column, number, most in numbers:
        if number is not None and abs(number) >= most:
            return False
        said[column] = reported.UNKNOWN if number is None else number
    return True


def begun_earlier(
    batch: SpanBatch,
    sent_ns: _Column,
    facts: FactsOfBatch,
    said: _Column,
    packed: Sequence[_Column],
) -> tuple[_Column, Sequence[_Column]]:
    """Let requests that a front proxy held back begin when it took them.

    Args:
        sent_ns: When each starts, as sent.
        said: See `reported`; what counts from a span's start moves along.
        packed: Where the intervals of each span begin; start, end and stage of each.

    Returns:
        When each span starts; and the intervals, with those in the proxy's queue.
    """
    rows, queued_ns = batch.counts.get(semconv.QUEUED_NS, _NOTHING)
    held = (queued_ns > 0) & (queued_ns <= MAX_QUEUED_NS)
    held &= facts.of_rows(IS_ENTRY)[rows] != 0
    rows, queued_ns = rows[held], queued_ns[held]
    if not len(rows):
        return sent_ns, packed
    longer_ns = np.zeros(len(sent_ns), np.int64)
    longer_ns[rows] = queued_ns
    bodies = rows[said[rows, reported.SAID_FIRST_BODY] != reported.UNKNOWN]
    said[bodies, reported.SAID_FIRST_BODY] += longer_ns[bodies]
    _move_first_chunks(batch, said, longer_ns)
    begins, intervals = packed
    owners = np.repeat(np.arange(len(longer_ns)), np.diff(begins))
    moved = intervals.copy()
    moved[:, :2] += longer_ns[owners, None]
    queues = np.column_stack((np.zeros_like(rows), queued_ns, np.full_like(rows, _QUEUE)))
    return sent_ns - longer_ns, _joined(moved, owners, queues, rows, len(longer_ns))


def _move_first_chunks(batch: SpanBatch, said: _Column, longer_ns: _Column) -> None:
    key = semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK
    if key not in batch.packed:
        return
    for row, seconds in zip(batch.packed[key][0].tolist(), batch.packed[key][1], strict=True):
        if longer_ns[row] and isinstance(seconds, int | float):
            after_ns = in_ns(seconds + int(longer_ns[row]) / 1e9)
            said[row, reported.SAID_FIRST_CHUNK] = (
                reported.UNKNOWN if after_ns is None else after_ns
            )


def _joined(
    one: _Column, of_one: _Column, other: _Column, of_other: _Column, rows: int
) -> Sequence[_Column]:
    """Where the intervals of each span begin, and those of two tables, span by span."""
    owners = np.concatenate((of_one, of_other))
    order = np.argsort(owners, kind="stable")
    begins = np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=rows))))
    return begins.astype(np.int64), np.ascontiguousarray(np.concatenate((one, other))[order])
