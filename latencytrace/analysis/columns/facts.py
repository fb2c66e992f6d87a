"""Facts that follow from the shape of a span alone, found out once by the rules for objects."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from latencytrace.analysis.calls.retries import is_failed_call, is_worth_another, resends
from latencytrace.analysis.ledger.circumstances import OURS, reported_preemptions
from latencytrace.analysis.tokens.counts import after_events, tells
from latencytrace.analysis.trace.asgi_messages import awaits_hang_up, is_piece, is_send
from latencytrace.analysis.trace.is_request import ENTRY_KINDS, is_entry, is_shared
from latencytrace.analysis.trace.known_engines import (
    as_it_ran,
    engine_of,
    is_step,
    may_be_of_engine,
)
from latencytrace.analysis.trace.stage_of import stage_of
from latencytrace.model import Attributes, AttributeValue, Span, SpanKind, semconv
from latencytrace.model.span_batch import Resource, SpanBatch
from latencytrace.model.stage import STAGES

# The columns of the table of facts
(
    ODD,  # its trace is one for the object path
    STAGE,
    SERVER,  # a service begins to answer with it
    CLIENT,
    MESSAGE,  # of an ASGI application, if nothing lies below it
    IS_PIECE,  # of the body that such a one sends
    TELLS,  # of a generation, maybe
    MAY_BE_OF_ENGINE,
    PREEMPTIONS,  # that its events tell
    IS_OURS,
    LEAF_ONLY,  # its trace is odd if anything lies below it
    TELLS_TIMES,  # in words of its engine's own
    TELLS_TOKENS,  # likewise, or by events
    IS_STEP,  # of the span above
    IS_ENTRY,  # marked as that of a service
    FAILED,  # it is a call that failed
    WORTH_ANOTHER,  # in a way that clients make it again for
    RESENT,  # which attempt after the first it is, as its client counts; 0: none
    USES_DEVICE,
    STARTS_UP,  # it says that it is of a process that starts up
    RAN_OTHERWISE,  # at another time than it was sent with
    MOVES,  # it, or what is near it, to another place
) = range(22)
FACTS: Final = MOVES + 1
SENT, HANG_UP = 1, 2  # messages

# And of that of resources
SERVICE, CLOCK, PROCESS, KNOWN_PROCESS = range(4)  # the last is below 0 where none is said
OF_RESOURCES: Final = KNOWN_PROCESS + 1

UNKNOWN_PARENT: Final = "0" * 16
_STAGE_NUMBERS = {stage: number for number, stage in enumerate(STAGES)}
_READ_AS_TEXT = (semconv.INTERVALS, semconv.RUNTIME_GAPS)
_SMALLEST_PLAIN, _LARGEST_PLAIN = 1e-4, 1e16  # between them no language writes an exponent
_SECOND_NS = 1_000_000_000
_MOST_RESENT = 1_000  # attempts; shapes do not tell more apart

_Numbers = NDArray[np.int64]


def as_json(fractions: NDArray[np.float64]) -> tuple[bytes, _Numbers]:
    """Fractions as JSON has them, with commas, and which ones others write in another way."""
    sizes = np.abs(fractions)
    is_plain = ((sizes >= _SMALLEST_PLAIN) & (sizes < _LARGEST_PLAIN)) | (sizes == 0)
    json = orjson.dumps(fractions, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
    return json, np.flatnonzero(~is_plain)


class FactsOfBatch(NamedTuple):
    """The facts of the rows of one batch."""

    kind: _Numbers  # (n,): of each row the row of the table
    table: _Numbers
    resources: _Numbers  # the table of resources

    def of_rows(self, fact: int) -> _Numbers:
        """(n,): one of the facts."""
        found: _Numbers = self.table[:, fact][self.kind]
        return found


class Facts:
    """The facts of all shapes seen, found out when one is seen first."""

    def __init__(self) -> None:
        # Two rows a shape: of roots, and of others. Before the first shape those of none.
        self.table = np.zeros((2, FACTS), np.int64)
        self._shapes: Sequence[Span] = ()  # whose facts these are, and of how many
        self._known = 0

    def of(self, batch: SpanBatch) -> FactsOfBatch:
        """The facts of a batch's rows; those of the shapes before are no longer held."""
        if batch.shapes is not self._shapes:
            self._shapes, self._known = batch.shapes, 0
        shape = batch.shape.astype(np.int64) - batch.first_shape
        known, needed = self._known, int(shape.max(initial=-1)) + 1
        if needed > known:
            rows = [row for one in range(known, needed) for row in _both(batch.shapes[one])]
            self.table = np.concatenate((self.table[: 2 * known], np.array(rows, np.int64)))
            self._known = needed
        # A row without a shape goes to the objects anyway: any facts will do.
        kind = 2 * np.maximum(shape, 0) + (batch.parent_id != 0)
        return FactsOfBatch(kind, self.table, _of_resources(batch.resources))


def _of_resources(resources: Iterable[Resource]) -> _Numbers:
    """The table of the resources of a batch: numbers that are equal for what is equal."""
    numbers: dict[object, int] = {}

    def number(what: str, *of: str | None) -> int:
        return numbers.setdefault((what, *of), len(numbers))

    rows = []
    for service, instance, host, _ in resources:
        process = number("process", service, instance)
        clock = (host, "") if host else (service, instance or "")
        known = process if instance else -1
        rows.append((number("service", service), number("clock", *clock), process, known))
    return np.array(rows, np.int64).reshape(-1, OF_RESOURCES)


def _both(shape: Span) -> list[list[int]]:
    """A shape's two rows of the table: as a root, and below another span."""
    return [facts_of(replace(shape, parent_id=parent_id)) for parent_id in (None, UNKNOWN_PARENT)]


def facts_of(span: Span) -> list[int]:
    """A row of the table."""
    stage, engine = stage_of(span), engine_of(span)
    tells_times = engine is not None and engine.may_tell_times(span)
    message = SENT if is_send(span, stage, {}) else HANG_UP if awaits_hang_up(span, {}) else 0
    facts: dict[int, int] = {
        ODD: _is_odd(span),
        STAGE: _STAGE_NUMBERS[stage],
        SERVER: is_entry(span),
        CLIENT: span.kind is SpanKind.CLIENT,
        MESSAGE: message,
        IS_PIECE: is_piece(span),
        TELLS: tells(span),
        MAY_BE_OF_ENGINE: may_be_of_engine(span),
        PREEMPTIONS: reported_preemptions(span),
        IS_OURS: span.scope == OURS,
        LEAF_ONLY: span.kind is SpanKind.PRODUCER or tells_times,
        TELLS_TIMES: tells_times,
        TELLS_TOKENS: (engine is not None and engine.may_tell_tokens(span))
        or after_events(span) is not None,
        IS_STEP: is_step(span),
        IS_ENTRY: span.kind in ENTRY_KINDS,
        FAILED: is_failed_call(span),
        WORTH_ANOTHER: is_failed_call(span) and is_worth_another(span),
        RESENT: min(resends(span), _MOST_RESENT) if span.kind is SpanKind.CLIENT else 0,
        USES_DEVICE: semconv.DEVICE_ID in span.attributes,
        STARTS_UP: span.attributes.get(semconv.STARTUP) is True,
        RAN_OTHERWISE: _ran_otherwise(span),
        MOVES: _moves(span),
    }
    return [facts[name] for name in range(FACTS)]


def _is_odd(span: Span) -> bool:
    """Tell if a trace that holds a span of this shape is left to the object path."""
    attributes, engine = span.attributes, engine_of(span)
    tells_times = engine is not None and engine.may_tell_times(span)
    batch_size = attributes.get(semconv.BATCH_SIZE)
    return (
        (engine is not None and engine.only_prefills(span))
        or (semconv.INTERVALS in attributes and tells_times)
        or (span.kind is SpanKind.CONSUMER and (span.parent_id is not None or bool(span.links)))
        or ((span.parent_id is None or span.kind is SpanKind.SERVER) and is_shared(span))
        or (semconv.QUEUED_NS in attributes and _counts_from_start(span))
        or any(not _is_packed(attributes.get(key)) for key in _READ_AS_TEXT)
        or (batch_size is not None and type(batch_size) is not int)
        or resends(span) >= _MOST_RESENT
    )


def _is_packed(value: AttributeValue) -> bool:
    """Tell if a column of packed values holds one, or there is none."""
    return value is None or type(value) in {str, bytes, int, float}


def _ran_otherwise(span: Span) -> bool:
    """Tell if its engine's rules give a span another time."""
    log = replace(
        span, start_ns=_SECOND_NS, end_ns=_SECOND_NS, attributes=_with_duration(span.attributes)
    )
    return as_it_ran(log) is not log


def _moves(span: Span) -> bool:
    """Tell if its engine's rules give a span, or what is near it, another place."""
    engine = engine_of(span)
    return engine is not None and (
        engine.never_current or span.name.startswith(engine.hands_over) or engine.outlives(span)
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
        or (engine is not None and (engine.may_tell_times(span) or engine.may_tell_tokens(span)))
        or any(
            isinstance(span.attributes.get(key), bool)
            for key in (semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, semconv.STREAMED_FIRST_BODY)
        )
    )
