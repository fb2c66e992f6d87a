"""From columns of spans to requests with their ledgers, whole batches of traces at once.

Under 1 µs of CPU a span (`tests/benchmarks/bench_columns.py`). The oracle is
`analysis.ledger.requests.requests_of`: both give equal requests.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.calls.waits import WORK
from latencytrace.analysis.columns import critical_paths, packed, reported, trees
from latencytrace.analysis.columns.after_answers import after_answers
from latencytrace.analysis.columns.engine_words import MOST_COUNTED, add_engines, begun_earlier
from latencytrace.analysis.columns.facts import (
    MOVES,
    PROCESS,
    RAN_OTHERWISE,
    Facts,
    FactsOfBatch,
)
from latencytrace.analysis.columns.moved import (
    Times,
    hung_anew,
    starts_as_they_ran,
    traces_with_moves,
)
from latencytrace.analysis.columns.processor_waits import with_processor_waits
from latencytrace.analysis.ledger.runtime_gaps import COLLECTION
from latencytrace.analysis.repairs.clock_skew import aligned
from latencytrace.analysis.repairs.implausible import DATED_NS, PLAUSIBLE, Plausible
from latencytrace.analysis.tokens.counts import (
    CACHED,
    FINISH_REASON,
    INPUT,
    MODEL,
    OUTPUT,
    SEQUENCES,
    in_ns,
)
from latencytrace.analysis.tokens.gaps import times_of
from latencytrace.analysis.trace.purposes import CALLS
from latencytrace.model import AttributeValue, Repair, semconv
from latencytrace.model.packed import PROCESSOR_WAIT, RuntimeGap, title_of_gap
from latencytrace.model.span_batch import SpanBatch
from latencytrace.model.stage import STAGES


def shifts(batch: SpanBatch, traces: Iterable[int]) -> tuple[NDArray[np.int64], dict[int, Repair]]:
    """By how much the spans of traces are moved; and by row what is reported of it."""
    moved_ns = np.zeros(len(batch.span_id), np.int64)
    reported: dict[int, Repair] = {}
    for trace in traces:
        first, beyond = batch.first[trace : trace + 2].tolist()
        rows = first + np.argsort(batch.span_id[first:beyond])
        spans = {span.span_id: span for span in (batch.bare(row) for row in rows.tolist())}
        moved, repairs = aligned(spans, ())
        for row, (span_id, span) in zip(rows.tolist(), spans.items(), strict=True):
            moved_ns[row] = moved[span_id].start_ns - span.start_ns
        places = dict(zip(spans, rows.tolist(), strict=True))
        reported.update({places[repair.span_id]: repair for repair in repairs})
    return moved_ns, reported


_Column = NDArray[np.int64]
_Flags = NDArray[np.bool_]
_Linked = tuple[_Flags, _Flags, _Column, _Column, _Column, _Column, _Column]

GAPS: Final = tuple(sorted(RuntimeGap))
TITLES: Final = (*map(title_of_gap, GAPS), PROCESSOR_WAIT)
_COLLECTION, _WAIT = TITLES.index(COLLECTION), TITLES.index(PROCESSOR_WAIT)
_EXPLAINS = np.array([stage.explains for stage in STAGES], np.bool_)
_IS_WORK = np.array([stage in WORK for stage in STAGES], np.bool_)
_IS_CALL = np.array([stage in CALLS for stage in STAGES], np.bool_)
_MOST_NS = 1 << 62
_MOST_CHOICES = 1_000
_MOST_LEFT_NS = 1 << 52  # times the most choices it still fits; 52 days
_SIGN = np.uint64(1 << 63)
_NO_TIMES = np.zeros((0, 3), np.int64)


class Trees(NamedTuple):
    """The trees of requests, a column for each of their places.

    A request's root comes first, and the children of each span lie side by side.
    """

    first: _Column  # (r + 1,): where each begins
    rows: _Column  # of the span in the batch
    above: _Column  # its parent's place; -1: none
    start_ns: _Column  # within its parent
    end_ns: _Column
    held_ns: _Column  # until when it holds up its parent
    stage: _Column
    children: _Column  # where they begin and end
    attempt: _Column  # the innermost failed attempt that it is or lies below; -1: none
    awaited: _Column  # until when the parent of an attempt waits for the next; -1: it does not
    outlives: _Flags
    clipped: _Flags  # it stuck out of its parent
    intervals: _Column  # where its intervals begin; one more
    interval_start_ns: _Column
    interval_end_ns: _Column
    interval_stage: _Column


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestColumns:
    """The requests of the traces of a batch that went by columns: `r`, with `s` segments.

    Those of a trace lie side by side, the outermost first, each in order of start.
    """

    batch: SpanBatch
    facts: FactsOfBatch
    models: reported.SaidWords  # of spans
    finish_reasons: reported.SaidWords
    start_ns: _Column  # (n,): of spans, by one clock, from when their proxies took them
    end_ns: _Column  # (n,)
    skewed: Mapping[int, Repair]  # by row, what is reported of clocks that were off
    requests: _Column  # (r, 4): row of the root, trace, whether it is outermost, how many spans
    trees: Trees
    clipped_spans: _Column  # (r,): how many stuck out of their parents
    known: _Column  # (r, `reported.KNOWN`): tokens and what it met
    attributes: _Column  # (r, `MOST_ATTRIBUTES`): places of carried values; -1: no more
    attributes_counted: _Column  # (r,): all of them
    segments: (
        _Column  # (s, 6): see `analysis.columns.critical_paths`; titles are those of `TITLES`
    )
    segment_first: _Column  # (r + 1,): where each one's begin
    ledger: _Column  # (r, stages): ns
    after: _Column | None  # (r, stages): ns after their ends; None: no request went on

    def __len__(self) -> int:
        return len(self.requests)


def attributed(
    batch: SpanBatch, facts: Facts, plausible: Plausible = PLAUSIBLE
) -> tuple[RequestColumns, _Column]:
    """Attribute every request of many traces to stages.

    Args:
        facts: What is known of shapes from earlier batches.
        plausible: The times that are believed.

    Returns:
        The requests; and the numbers of the traces that the object path must take, for they
        are odd: there is something to be mended, or their spans need rules that it alone knows.
    """
    known = facts.of(batch)
    sent_ns, end_ns = _uniform(batch.start_ns), _uniform(batch.end_ns)
    span_id, resource = _signed(batch.span_id), _uniform(batch.resource)
    odd_row = batch.shape < 0
    said, words, intervals = _read(batch, known, odd_row)
    sent_ns = starts_as_they_ran(batch, sent_ns, known, odd_row)
    start_ns, intervals = begun_earlier(batch, sent_ns, known, said, intervals)
    tells, *gaps = _unpacked(batch, semconv.RUNTIME_GAPS, _GAP_NAMES, odd_row)
    odd_row |= (start_ns < 0) | (end_ns >= _MOST_NS)  # of the others no difference goes round
    odd_row |= end_ns - sent_ns > plausible.longest_ns
    odd_row |= (sent_ns < plausible.earliest_ns) | (end_ns > plausible.latest_ns)
    if (end_ns >= DATED_NS).any():
        odd_row |= (sent_ns < DATED_NS) | (end_ns < DATED_NS)
    times = Times(sent_ns, start_ns, end_ns)
    linked, (_, start_ns, end_ns), skewed = _link(batch, known, said, odd_row, times)
    odd, _, child, following, stage, by_start, requests = linked
    laid = Trees(
        *trees.lay_out_trees(
            requests, start_ns, end_ns, known.kind, known.table, resource, known.resources,
            batch.target, stage, child, following, _IS_CALL, _IS_WORK, *intervals,
        )
    )  # fmt: skip
    filled = critical_paths.fill_pauses(
        _critical_paths(laid), laid.first, laid.rows, laid.above, laid.held_ns, laid.stage,
        laid.attempt, laid.awaited, start_ns, span_id, known.kind, known.table, resource,
        known.resources, tells, *packed.put_apart(*gaps), _COLLECTION,
    )  # fmt: skip
    segments, segment_first, ledger = _with_processor_waits(filled, laid, batch, known)
    carried = batch.carried
    attributes, counted = reported.tell_attributes(
        requests, laid.first, laid.rows, _uniform(batch.first), by_start, carried.begin,
        carried.count, carried.item, carried.items, carried.number,
    )  # fmt: skip
    reported.add_pieces(
        laid.first, laid.rows, laid.above, start_ns, end_ns, known.kind, known.table, said
    )
    columns = RequestColumns(
        batch=batch, facts=known, models=words[0], finish_reasons=words[1],
        start_ns=start_ns, end_ns=end_ns, skewed=skewed,
        requests=requests, trees=laid, attributes=attributes, attributes_counted=counted,
        segments=segments, segment_first=segment_first, ledger=ledger,
        after=after_answers(
            laid, start_ns, end_ns, span_id, known, resource, plausible.longest_ns
        ),
        clipped_spans=np.diff(np.concatenate(([0], np.cumsum(laid.clipped)))[laid.first]),
        known=reported.read_reporters(
            laid.first, laid.rows, laid.above, laid.start_ns, laid.held_ns, laid.stage,
            laid.intervals, laid.interval_start_ns, laid.interval_end_ns, laid.interval_stage,
            start_ns, end_ns, span_id, known.kind, known.table, said,
        ),
    )  # fmt: skip
    return columns, np.flatnonzero(odd)


def _read(
    batch: SpanBatch, known: FactsOfBatch, odd_row: _Flags
) -> tuple[_Column, tuple[reported.SaidWords, reported.SaidWords], Sequence[_Column]]:
    """The numbers that spans carry, models and reasons to finish, and the intervals on spans."""
    said = _said(batch, odd_row)
    words = reported.SaidWords.of(batch, MODEL), reported.SaidWords.of(batch, FINISH_REASON)
    _, *packed_times = _unpacked(batch, semconv.INTERVALS, _STAGE_NAMES, odd_row)
    intervals = add_engines(batch, known, said, words, odd_row, packed_times)
    said[:, [reported.SAID_MODEL, reported.SAID_FINISH_REASON]] = np.column_stack(
        [one.codes >= 0 for one in words]
    )
    return said, words, intervals


def _link(
    batch: SpanBatch,
    known: FactsOfBatch,
    said: _Column,
    odd_row: _Flags,
    times: Times,
) -> tuple[_Linked, Times, Mapping[int, Repair]]:
    """The result of `trees.link_spans`, and times; clocks agree, and spans hang where they ran."""
    ids = _signed(batch.span_id), _signed(batch.parent_id)

    def linked(parent_id: _Column, times: Times, aligned: _Flags) -> _Linked:
        return trees.link_spans(
            _uniform(batch.first), ids[0], parent_id, *times, known.kind, known.table,
            _uniform(batch.resource), known.resources, _EXPLAINS, odd_row, aligned,
        )  # fmt: skip

    as_sent = odd, skewed, *_ = linked(ids[1], times, np.zeros(len(batch.trace_ids), np.bool_))
    moves = traces_with_moves(batch, known)
    if not (skewed.any() or moves.any()):
        return as_sent, times, {}
    repairs: Mapping[int, Repair] = {}
    if skewed.any():
        moved_ns, repairs = shifts(batch, np.flatnonzero(skewed).tolist())
        # An absolute time would have to move along.
        odd_row[(moved_ns != 0) & (said[:, reported.SAID_FIRST_TOLD] != reported.UNKNOWN)] = True
        in_skewed = np.repeat(skewed, np.diff(batch.first))
        odd_row[in_skewed & (known.of_rows(RAN_OTHERWISE) | known.of_rows(MOVES)) != 0] = True
        times = Times(*(one + moved_ns for one in times))
    moves &= ~odd
    parent_id, times = hung_anew(batch, np.flatnonzero(moves).tolist(), ids, times)
    return linked(parent_id, times, skewed | moves), times, repairs


def _with_processor_waits(
    filled: tuple[_Column, _Column, _Column], laid: Trees, batch: SpanBatch, known: FactsOfBatch
) -> tuple[_Column, _Column, _Column]:
    rows, values = batch.counts.get(semconv.PROCESSOR_WAIT_NS, _NO_COUNTS)
    if not len(rows):
        return filled
    waited_ns = np.zeros(len(batch.span_id), np.int64)
    waited_ns[rows] = values
    roots = laid.first[:-1]
    process = known.resources[_uniform(batch.resource)[laid.rows], PROCESS]
    return with_processor_waits(filled, waited_ns[laid.rows[roots]], process, roots, _WAIT)


def _critical_paths(laid: Trees) -> _Column:
    winners = critical_paths.win(
        laid.intervals, laid.interval_start_ns, laid.interval_end_ns, laid.interval_stage
    )
    parts_and_tracks = critical_paths.descend(
        laid.first, laid.start_ns, laid.held_ns, laid.stage, laid.children, laid.outlives, *winners
    )
    return critical_paths.gather(*parts_and_tracks)


def _uniform(column: _Column) -> _Column:
    """A column of the kind that the functions take."""
    return np.ascontiguousarray(column, np.int64)


def _signed(ids: NDArray[np.uint64]) -> _Column:
    """Ids as signed numbers of the same order."""
    return (ids ^ _SIGN).view(np.int64)


def _said(batch: SpanBatch, odd_row: _Flags) -> _Column:
    """The numbers that spans carry (see `reported`); notes those beyond what is added up here."""
    said = np.full((len(odd_row), reported.SAID), reported.UNKNOWN, np.int64)
    said[:, reported.SAID_LEFT] = 0
    said[:, reported.SAID_CHOICES] = 1
    rows, choices = batch.counts.get(semconv.STREAMED_CHOICES, _NO_COUNTS)
    said[rows[choices > 0], reported.SAID_CHOICES] = choices[choices > 0]
    odd_row[rows[choices > _MOST_CHOICES]] = True
    for column, key in _COUNTED:
        if key in batch.counts:
            rows, values = batch.counts[key]
            odd_row[rows[values >= MOST_COUNTED]] = True
            said[rows[values >= 0], column] = values[values >= 0]
    for column, key in _ANY_NUMBER:
        if key in batch.counts:
            rows, values = batch.counts[key]
            odd_row[rows[(values >= _MOST_NS) | (values <= -_MOST_NS)]] = True
            said[rows, column] = values
    for column, key in _SECONDS:
        rows, seconds = batch.packed.get(key, _NOTHING)
        lengths_ns = [in_ns(value) for value in seconds]
        said[rows, column] = [reported.UNKNOWN if one is None else one for one in lengths_ns]
    _add_left(batch, said, odd_row)
    return said


def _add_left(batch: SpanBatch, said: _Column, odd_row: _Flags) -> None:
    """How long the tokens of streams left for their callers."""
    rows, values = batch.packed.get(semconv.TOKEN_TIMES, _NOTHING)
    streamed = np.flatnonzero(
        np.maximum(
            said[rows, reported.SAID_STREAMED_TOKENS], said[rows, reported.SAID_STREAMED_EVENTS]
        )
        > 0
    )
    if not len(streamed):
        return
    texts, _ = packed.Texts.of([values[place] for place in streamed.tolist()])
    totals = packed.total_gaps(*texts)
    for place in np.flatnonzero(totals < 0).tolist():
        times = times_of(batch.span(int(rows[streamed[place]])))
        totals[place] = 0 if times is None else min(sum(times.lengths_ns), _MOST_LEFT_NS)
    odd_row[rows[streamed[totals >= _MOST_LEFT_NS]]] = True
    said[rows[streamed], reported.SAID_LEFT] = totals


def _unpacked(
    batch: SpanBatch, key: str, names: packed.Texts, odd_row: _Flags
) -> tuple[_Flags, _Column, _Column]:
    """The spans with an attribute of packed times; where those of each begin; and the times."""
    carries = np.zeros(len(odd_row), np.bool_)
    begins = np.zeros(len(odd_row) + 1, np.int64)
    rows, values = batch.packed.get(key, _NOTHING)
    if not len(rows):
        return carries, begins, _NO_TIMES
    texts, odd = packed.Texts.of(values)
    unreadable, of_text, found = packed.unpack_many(*texts, *names)
    odd_row[rows[odd | unreadable]] = True
    carries[rows] = True
    begins[rows + 1] = np.diff(of_text)
    np.cumsum(begins, out=begins)
    return carries, begins, found


def _names(names: Sequence[str]) -> packed.Texts:
    return packed.Texts.of(names)[0]


_NO_COUNTS = (np.zeros(0, np.int64), np.zeros(0, np.int64))
_NOTHING: tuple[_Column, Sequence[AttributeValue]] = (np.zeros(0, np.int64), ())
_STAGE_NAMES = _names([stage.value for stage in STAGES])
_GAP_NAMES = _names([gap.value for gap in GAPS])
_COUNTED = (  # of the keys of one column the last wins
    *((reported.SAID_INPUT, key) for key in reversed(INPUT.keys)),
    *((reported.SAID_OUTPUT, key) for key in reversed(OUTPUT.keys)),
    *((reported.SAID_CACHED, key) for key in reversed(CACHED.keys)),
    *((reported.SAID_SEQUENCES, key) for key in reversed(SEQUENCES.keys)),
    (reported.SAID_STREAMED_TOKENS, semconv.STREAMED_TOKENS),
    (reported.SAID_STREAMED_EVENTS, semconv.STREAMED_EVENTS),
    (reported.SAID_QUEUE_DEPTH, semconv.QUEUE_DEPTH),
    (reported.SAID_CONCURRENCY, semconv.CONCURRENCY),
    (reported.SAID_PREEMPTIONS, semconv.PREEMPTIONS),
)
_ANY_NUMBER = (
    (reported.SAID_BATCH_SIZE, semconv.BATCH_SIZE),
    (reported.SAID_FIRST_BODY, semconv.STREAMED_FIRST_BODY),
)
_SECONDS = (
    (reported.SAID_FIRST_CHUNK, semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK),
    (reported.SAID_FIRST_TOKEN, semconv.LATENCY_TO_FIRST),
)
