"""Facts that follow from the shape of a span alone, found out once by the rules for objects."""

from collections import defaultdict
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, repeat
from typing import Final

import numpy as np
import orjson
from numpy.typing import NDArray

from latencytrace.analysis.calls.retries import is_failed_call
from latencytrace.analysis.columns.keys import COUNTS
from latencytrace.analysis.ledger.circumstances import OURS, reported_preemptions
from latencytrace.analysis.tail.cohort_attributes import LEFT_OUT
from latencytrace.analysis.tokens.counts import (
    FINISH_REASON,
    MODEL,
    after_events,
    tells,
    value,
)
from latencytrace.analysis.trace.asgi_messages import awaits_hang_up, is_piece, is_send
from latencytrace.analysis.trace.is_request import ENTRY_KINDS, is_entry, is_shared
from latencytrace.analysis.trace.known_engines import engine_of, is_step, may_be_of_engine
from latencytrace.analysis.trace.stage_of import stage_of
from latencytrace.model import Attributes, AttributeValue, Span, SpanKind, semconv
from latencytrace.model.cohorts.cohort import ATTRIBUTE_CHARACTERS, attribute_text
from latencytrace.model.span_batch import SpanBatch
from latencytrace.model.stage import STAGES

# The columns of the table of facts
(
    ODD,  # its trace is one for the object path
    STAGE,
    SERVICE,
    CLOCK,
    PROCESS,
    KNOWN_PROCESS,  # below 0: it does not say which
    SERVER,  # a service begins to answer with it
    CLIENT,
    MESSAGE,  # of an ASGI application, if nothing lies below it
    IS_PIECE,  # of the body that such a one sends
    TELLS,  # of a generation, maybe
    HAS_MODEL,  # unless it tells tokens in words of its own
    HAS_FINISH_REASON,
    MAY_BE_OF_ENGINE,
    PREEMPTIONS,  # that its events tell
    IS_OURS,
    CHOICES,
    LEAF_ONLY,  # its trace is odd if anything lies below it
    TELLS_TIMES,  # in words of its engine's own
    TELLS_TOKENS,  # likewise, or by events
    IS_STEP,  # of the span above
    IS_ENTRY,  # marked as that of a service
    PAIRS,  # where its attributes begin, and end
    PAIRS_END,
) = range(24)
FACTS: Final = PAIRS_END + 1
SENT, HANG_UP = 1, 2  # messages

UNKNOWN_PARENT: Final = "0" * 16
_MOST_CHOICES = 1_000
_STAGE_NUMBERS = {stage: number for number, stage in enumerate(STAGES)}
_READ_AS_TEXT = (semconv.INTERVALS, semconv.RUNTIME_GAPS)
_FIRST_ROWS = 256
_SMALLEST_PLAIN, _LARGEST_PLAIN = 1e-4, 1e16  # between them nobody writes an exponent
_SECOND_NS = 1_000_000_000

Pair = tuple[str, str]  # key and text of an attribute
_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FactsOfBatch:
    """The facts of the shapes of one batch."""

    kind: _Numbers  # (n,): of each row the row of the table, one for roots and one for others
    table: _Numbers
    reported: _Numbers  # attributes by number; below 0: varying ones, by their keys' places
    places: Mapping[str, int]  # of keys that vary
    pairs: "Pairs"  # those that are in no shape are forgotten with it
    odd_ones: dict[int, Span]  # by row: the whole spans of no shape; of a trace one at most

    def template(self, batch: SpanBatch, row: int) -> Span:
        """A span of the same shape as that of a row; of no shape, that itself."""
        shape = int(batch.shape[row])
        return self.odd_ones[row] if shape < 0 else batch.shapes[shape]


class Pairs:
    """Numbers attributes from 0 on, after those of another table."""

    def __init__(self, before: "Pairs | None" = None) -> None:
        self._before = before
        self._first = 0 if before is None else len(before)
        self._numbers: dict[str, dict[str, int]] = defaultdict(dict)  # by key and text
        self.pairs: list[Pair] = []

    def __len__(self) -> int:
        return self._first + len(self.pairs)

    def at(self, numbers: Iterable[int]) -> tuple[Pair, ...]:
        """Attributes by their numbers."""
        first, here = self._first, self.pairs
        before = () if self._before is None else self._before.pairs
        return tuple([before[one] if one < first else here[one - first] for one in numbers])

    def numbers(self, key: str, values: Iterable[AttributeValue]) -> list[int]:
        """The numbers of attributes of one key, by what a request is asked for by."""
        before = {} if self._before is None else self._before.of_key(key)
        here = self._numbers[key]
        texts = _texts(list(values))
        if not before and not here:
            distinct = dict.fromkeys(texts)
            here.update(zip(distinct, count(len(self))))
            self.pairs += zip(repeat(key), distinct)
            return [here[text] for text in texts]
        found = []
        for text in texts:
            number = before.get(text)
            if number is None:
                number = here.get(text)
            if number is None:
                number = here[text] = len(self)
                self.pairs.append((key, text))
            found.append(number)
        return found

    def of_key(self, key: str) -> Mapping[str, int]:
        """The numbers of a key's attributes, by text."""
        return self._numbers.get(key, {})


def _texts(values: list[AttributeValue]) -> list[str]:
    """The texts that `attribute_text` gives, in a tenth of the time where all are numbers."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return [text[:ATTRIBUTE_CHARACTERS] for text in map(str, values)]
    if kinds != {float}:
        return list(map(attribute_text, values))
    json, others = as_json(np.array(values, np.float64))
    texts = json.decode().split(",")
    for place in others.tolist():
        texts[place] = str(values[place])
    return texts


def as_json(fractions: NDArray[np.float64]) -> tuple[bytes, _Numbers]:
    """Fractions as JSON has them, with commas, and which ones others write in another way."""
    sizes = np.abs(fractions)
    is_plain = ((sizes >= _SMALLEST_PLAIN) & (sizes < _LARGEST_PLAIN)) | (sizes == 0)
    json = orjson.dumps(fractions, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
    return json, np.flatnonzero(~is_plain)


class Facts:
    """The facts of all shapes seen, found out when one is seen first."""

    def __init__(self) -> None:
        self._known = np.zeros(_FIRST_ROWS, np.bool_)
        self._table = np.zeros((2 * _FIRST_ROWS, len(_NAMES)), np.int64)
        self._reported_so_far: list[int] = []
        self._reported_numbers: _Numbers = np.zeros(0, np.int64)
        self._pairs = Pairs()
        self._places: dict[str, int] = {}
        self._numbers: dict[Hashable, int] = {}

    def of(self, batch: SpanBatch) -> FactsOfBatch:
        """The facts of a batch's rows. All batches number their shapes alike."""
        self._learn(batch)
        shape = batch.shape.astype(np.int64)
        table, reported, pairs = self._table, self._reported_numbers, Pairs(self._pairs)
        without = np.flatnonzero(shape < 0)
        odd_ones: dict[int, Span] = {}
        if len(without):
            private = [_ODD, _ODD]
            of_private: list[int] = []
            shape[without] = len(table) // 2
            for row in _alone(without, batch).tolist():
                odd_ones[row] = span = batch.span(row)
                shape[row] = (len(table) + len(private)) // 2
                begin = len(reported) + len(of_private)
                of_private += self._reported(span, (), pairs)
                private += self._both(span, _handed(batch, row, span), begin)
                private[-1][PAIRS_END] = private[-2][PAIRS_END] = len(reported) + len(of_private)
            table = np.concatenate((table, np.array(private, np.int64)))
            reported = np.concatenate((reported, np.array(of_private, np.int64)))
        kind = 2 * shape + (batch.parent_id != 0)
        return FactsOfBatch(kind, table, reported, self._places, pairs, odd_ones)

    def _learn(self, batch: SpanBatch) -> None:
        shapes = len(batch.shapes)
        if shapes > len(self._known):
            more = max(shapes, 2 * len(self._known)) - len(self._known)
            self._known = np.concatenate((self._known, np.zeros(more, np.bool_)))
            added = np.zeros((2 * more, len(_NAMES)), np.int64)
            self._table = np.concatenate((self._table, added))
        numbers = np.maximum(batch.shape, 0)
        unknown = np.flatnonzero(~self._known[numbers] & (batch.shape >= 0))
        if not len(unknown):
            return
        distinct, first = np.unique(numbers[unknown], return_index=True)
        try:
            for number, row in zip(distinct.tolist(), unknown[first].tolist(), strict=True):
                span = batch.shapes[number]
                handed = _handed(batch, row, span)
                begin = len(self._reported_so_far)
                self._reported_so_far += self._reported(span, handed, self._pairs)
                both = self._both(span, handed, begin)
                both[0][PAIRS_END] = both[1][PAIRS_END] = len(self._reported_so_far)
                self._table[2 * number : 2 * number + 2] = both
                self._known[number] = True
        finally:  # whatever stops it: what is known refers to these
            self._reported_numbers = np.array(self._reported_so_far, np.int64)

    def _reported(self, span: Span, handed: Container[str], pairs: Pairs) -> Iterator[int]:
        """The attributes of a shape, in order; of those that vary the place of their key."""
        for key, found in span.attributes.items():
            if key in LEFT_OUT:
                continue
            if key in handed:
                yield -1 - self._places.setdefault(key, len(self._places))
            elif isinstance(found, tuple):
                yield from pairs.numbers(key, found)
            elif found is not None and found != semconv.CONTENT_REMOVED:
                yield from pairs.numbers(key, [found])

    def _both(self, span: Span, handed: Container[str], begin: int) -> list[list[int]]:
        """A shape's two rows of the table: as a root, and below another span."""
        return [
            self._row(replace(span, parent_id=parent_id), handed, begin)
            for parent_id in (None, UNKNOWN_PARENT)
        ]

    def _row(self, span: Span, handed: Container[str], begin: int) -> list[int]:
        stage, engine = stage_of(span), engine_of(span)
        tells_times = engine is not None and engine.tells_times
        message = SENT if is_send(span, stage, {}) else HANG_UP if awaits_hang_up(span, {}) else 0
        choices = span.attributes.get(semconv.STREAMED_CHOICES)
        process = self._number("process", (span.service, span.instance))
        facts: dict[int, int] = {
            ODD: _is_odd(span, handed),
            STAGE: _STAGE_NUMBERS[stage],
            SERVICE: self._number("service", span.service),
            CLOCK: self._number("clock", span.clock),
            PROCESS: process,
            KNOWN_PROCESS: process if span.instance else -1,
            SERVER: is_entry(span),
            CLIENT: span.kind is SpanKind.CLIENT,
            MESSAGE: message,
            IS_PIECE: is_piece(span),
            TELLS: tells(span),
            HAS_MODEL: value(span, MODEL) is not None,
            HAS_FINISH_REASON: value(span, FINISH_REASON) is not None,
            MAY_BE_OF_ENGINE: may_be_of_engine(span),
            PREEMPTIONS: reported_preemptions(span),
            IS_OURS: span.scope == OURS,
            CHOICES: choices if type(choices) is int and choices > 0 else 1,
            LEAF_ONLY: span.kind is SpanKind.PRODUCER or tells_times,
            TELLS_TIMES: tells_times,
            TELLS_TOKENS: (engine is not None and engine.tells_tokens)
            or after_events(span) is not None,
            IS_STEP: is_step(span),
            IS_ENTRY: span.kind in ENTRY_KINDS,
            PAIRS: begin,
            PAIRS_END: begin,
        }
        return [facts[name] for name in _NAMES]

    def _number(self, kind: str, what: Hashable) -> int:
        return self._numbers.setdefault((kind, what), len(self._numbers))


_NAMES = range(FACTS)
_ODD = [int(name == ODD) for name in _NAMES]


def _alone(rows: _Numbers, batch: SpanBatch) -> _Numbers:
    """Those of rows that are the only one in their trace: finding out facts takes its time."""
    traces = np.searchsorted(batch.first, rows, side="right")
    alone: _Numbers = rows[np.bincount(traces)[traces] == 1]
    return alone


def _handed(batch: SpanBatch, row: int, span: Span) -> frozenset[str]:
    """The keys of a span's attributes that columns hold, as they do for all of its shape."""
    columns = {key: rows for key, (rows, _) in (*batch.counts.items(), *batch.packed.items())}
    return frozenset(
        key
        for key in span.attributes.keys() & columns.keys()
        if row in columns[key][np.searchsorted(columns[key], row) :][:1]
    )


def _is_odd(span: Span, handed: Container[str]) -> bool:
    """Tell if a trace that holds a span of this shape is left to the object path."""
    attributes = span.attributes
    choices = attributes.get(semconv.STREAMED_CHOICES)
    return (
        _is_moved(span)
        or (span.kind is SpanKind.CONSUMER and (span.parent_id is not None or bool(span.links)))
        or ((span.parent_id is None or span.kind is SpanKind.SERVER) and is_shared(span))
        or is_failed_call(span)
        or (semconv.QUEUED_NS in attributes and _counts_from_start(span))
        or any(
            type(found) is int and key not in handed
            for key, found in attributes.items()
            if key in COUNTS
        )
        or any(
            attributes.get(key) is not None and key not in handed
            for key in (*_READ_AS_TEXT, semconv.BATCH_SIZE)
        )
        or (type(choices) is int and choices > _MOST_CHOICES)
    )


def _is_moved(span: Span) -> bool:
    """Tell if its engine's rules give a span, or what is near it, another place, time or line."""
    engine = engine_of(span)
    if engine is None:
        return False
    log = replace(
        span, start_ns=_SECOND_NS, end_ns=_SECOND_NS, attributes=_with_duration(span.attributes)
    )
    return (
        engine.never_current
        or span.name.startswith(engine.hands_over)
        or engine.outlives(span)
        or engine.only_prefills(span)
        or engine.ran(log) is not log
        or (engine.tells_times and semconv.INTERVALS in span.attributes)
    )


def _with_duration(attributes: Attributes) -> Attributes:
    """Attributes, where a duration that varies is a second."""
    key = semconv.LOGFIRE_DURATION
    return {**attributes, key: 1.0} if key in attributes else attributes


def _counts_from_start(span: Span) -> bool:
    """Tell if anything counts from a span's start that does not move with that here."""
    engine = engine_of(span)
    return (
        after_events(span) is not None
        or (engine is not None and (engine.tells_times or engine.tells_tokens))
        or any(
            isinstance(span.attributes.get(key), bool)
            for key in (semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, semconv.STREAMED_FIRST_BODY)
        )
    )
