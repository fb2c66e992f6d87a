"""Tokens, queues and the like, as the spans of requests carry them (`compiled/reported.c`).

What `analysis.tokens.latency` and `analysis.ledger.circumstances` do object by object; those are
the oracles, and say why each step is taken.
"""

from collections.abc import Sequence
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.compiled.core import bind, needed
from latencytrace.analysis.columns.facts import (
    FACTS,
    IS_OURS,
    IS_PIECE,
    MAY_BE_OF_ENGINE,
    PREEMPTIONS,
    SERVER,
    TELLS,
    TELLS_TIMES,
)
from latencytrace.analysis.columns.keys import CODES
from latencytrace.analysis.columns.request_table import Words
from latencytrace.analysis.tail.cohort_attributes import MOST_ATTRIBUTES
from latencytrace.analysis.tokens.counts import Said, meant
from latencytrace.analysis.trace.asgi_messages import LEAST_STREAMED
from latencytrace.model import AttributeValue, Stage
from latencytrace.model.span_batch import SpanBatch
from latencytrace.model.stage import STAGES

_Column = NDArray[np.int64]

UNKNOWN: Final = -(1 << 63)  # no number

# The columns of what spans say
(
    SAID_INPUT, SAID_OUTPUT, SAID_CACHED, SAID_SEQUENCES, SAID_BATCH_SIZE, SAID_STREAMED_TOKENS,
    SAID_STREAMED_EVENTS, SAID_FIRST_BODY, SAID_FIRST_CHUNK, SAID_FIRST_TOKEN, SAID_LEFT,
    SAID_QUEUE_DEPTH, SAID_CONCURRENCY, SAID_PREEMPTIONS, SAID_MODEL, SAID_FINISH_REASON,
    SAID_DECODED, SAID_FIRST_TOLD, SAID_FIRST_EVENT, SAID_CHOICES,
) = range(20)  # fmt: skip
SAID: Final = SAID_CHOICES + 1

# And of what is known of requests
(
    MODEL_CALL, FINISHER, BATCH_SIZE, INPUT, CACHED, OUTPUT, FIRST_TOKEN, FIRST_TOKEN_OF,
    MODELS_FIRST_TOKEN, PER_TOKEN, QUEUE_DEPTH, CONCURRENCY, REQUEST_PREEMPTIONS, COLD_START,
) = range(14)  # fmt: skip
KNOWN: Final = COLD_START + 1
OF_CALLER, OF_MODEL = 1, 2

bind(
    {
        "FACTS": FACTS, "IS_OURS": IS_OURS, "IS_PIECE": IS_PIECE,
        "MAY_BE_OF_ENGINE": MAY_BE_OF_ENGINE,
        "PREEMPTIONS": PREEMPTIONS, "SERVER": SERVER, "TELLS": TELLS, "TELLS_TIMES": TELLS_TIMES,
        "SAID": SAID, "SAID_INPUT": SAID_INPUT, "SAID_OUTPUT": SAID_OUTPUT,
        "SAID_CACHED": SAID_CACHED, "SAID_SEQUENCES": SAID_SEQUENCES,
        "SAID_BATCH_SIZE": SAID_BATCH_SIZE, "SAID_STREAMED_TOKENS": SAID_STREAMED_TOKENS,
        "SAID_STREAMED_EVENTS": SAID_STREAMED_EVENTS, "SAID_FIRST_BODY": SAID_FIRST_BODY,
        "SAID_FIRST_CHUNK": SAID_FIRST_CHUNK, "SAID_FIRST_TOKEN": SAID_FIRST_TOKEN,
        "SAID_LEFT": SAID_LEFT, "SAID_QUEUE_DEPTH": SAID_QUEUE_DEPTH,
        "SAID_CONCURRENCY": SAID_CONCURRENCY, "SAID_PREEMPTIONS": SAID_PREEMPTIONS,
        "SAID_MODEL": SAID_MODEL, "SAID_FINISH_REASON": SAID_FINISH_REASON,
        "SAID_DECODED": SAID_DECODED, "SAID_FIRST_TOLD": SAID_FIRST_TOLD,
        "SAID_FIRST_EVENT": SAID_FIRST_EVENT, "SAID_CHOICES": SAID_CHOICES,
        "KNOWN": KNOWN, "MODEL_CALL": MODEL_CALL, "FINISHER": FINISHER, "BATCH_SIZE": BATCH_SIZE,
        "INPUT": INPUT, "CACHED": CACHED, "OUTPUT": OUTPUT, "FIRST_TOKEN": FIRST_TOKEN,
        "FIRST_TOKEN_OF": FIRST_TOKEN_OF, "MODELS_FIRST_TOKEN": MODELS_FIRST_TOKEN,
        "PER_TOKEN": PER_TOKEN, "QUEUE_DEPTH": QUEUE_DEPTH, "CONCURRENCY": CONCURRENCY,
        "REQUEST_PREEMPTIONS": REQUEST_PREEMPTIONS, "COLD_START": COLD_START,
        "OF_CALLER": OF_CALLER, "OF_MODEL": OF_MODEL,
        "PREFILL": STAGES.index(Stage.PREFILL), "DECODE": STAGES.index(Stage.DECODE),
        "REMOTE_MODEL": STAGES.index(Stage.REMOTE_MODEL), "LOAD": STAGES.index(Stage.LOAD),
        "UNKNOWN": UNKNOWN, "LEAST_STREAMED": LEAST_STREAMED, "MOST_ATTRIBUTES": MOST_ATTRIBUTES,
    }
)  # fmt: skip


def add_pieces(
    first: _Column,
    rows: _Column,
    above: _Column,
    start_ns: _Column,
    end_ns: _Column,
    kind: _Column,
    facts: _Column,
    said: _Column,
) -> None:
    """Add the first piece that was sent of streamed answers, where their roots say of no body.

    Args:
        first: Begin of each request's tree (r + 1,).
        rows: Span of each place in the trees.
        above: Place of the parent of each place.
        start_ns: Start of each span, as sent.
        end_ns: End of each span, as sent.
        kind: Row of `facts` of each span.
        said: Gets the piece as the first body.
    """
    needed().add_pieces(first, rows, above, start_ns, end_ns, kind, facts, said)


def read_reporters(
    first: _Column,
    rows: _Column,
    above: _Column,
    begin_ns: _Column,
    finish_ns: _Column,
    stages: _Column,
    intervals: _Column,
    interval_start_ns: _Column,
    interval_end_ns: _Column,
    interval_stage: _Column,
    start_ns: _Column,
    end_ns: _Column,
    span_id: _Column,
    kind: _Column,
    facts: _Column,
    said: _Column,
) -> _Column:
    """Read the tokens of requests, and what they met, off their spans.

    Args:
        first: Where each request's tree begins, as the next six from `trees.lay_out_trees`.
        rows: Span of each place in the trees.
        above: Place of the parent of each place.
        begin_ns: Clipped start of each place.
        finish_ns: Clipped end of each place.
        stages: Stage of each place.
        intervals: Begin of the intervals of each place.
        interval_start_ns: Start of each interval.
        interval_end_ns: End of each interval.
        interval_stage: Stage of each interval.
        start_ns: Start of each span, as sent.
        end_ns: End of each span, as sent.
        span_id: As signed numbers of the same order.
        kind: Row of each span in the facts.
        said: By span (n, `SAID`).

    Returns:
        By request (r, `KNOWN`).
    """
    known = np.empty((len(first) - 1, KNOWN), np.int64)
    needed().read_reporters(
        first, rows, above, begin_ns, finish_ns, stages, intervals, interval_start_ns,
        interval_end_ns, interval_stage, start_ns, end_ns, span_id, kind, facts, said, known,
    )  # fmt: skip
    return known


def tell_attributes(
    requests: _Column,
    tree_first: _Column,
    tree_rows: _Column,
    first: _Column,
    by_start: _Column,
    begin: _Column,
    count: _Column,
    item: _Column,
    items: _Column,
    number: _Column,
) -> tuple[_Column, _Column]:
    """The attributes that requests may be asked for by, each once.

    Args:
        requests: From `trees.link_spans`.
        tree_first: Where each request's tree begins.
        tree_rows: Span of each place in a tree.
        first: Where each trace begins.
        by_start: The rows of each trace in order of start.
        begin: By span, where its attributes begin, as the next four of `CarriedValues`.
        item: By attribute, where what it tells begins.
        number: By place, equal for equal attributes.

    Returns:
        The places of the first ones of each request (r, `MOST_ATTRIBUTES`), -1 beyond; how many
        there are.
    """
    found = np.empty((len(requests), MOST_ATTRIBUTES), np.int64)
    counted = np.empty(len(requests), np.int64)
    needed().tell_attributes(
        requests, tree_first, tree_rows, first, by_start, begin, count, item, items, number,
        found, counted,
    )  # fmt: skip
    return found, counted


class SaidWords:
    """A word of each span, or none.

    Args:
        codes: Place of each span's word among the values (n,); below 0: none.
        values: Words, perhaps with duplicates.
    """

    def __init__(self, codes: _Column, values: list[AttributeValue]) -> None:
        self.codes = codes
        self._values = values

    @classmethod
    def of(cls, batch: SpanBatch, said: Said) -> Self:
        carried = batch.carried
        found = cls(np.full(len(batch.span_id), -1, np.int64), [])
        for key in reversed(said.keys):  # the first ones win
            places = np.flatnonzero(carried.code == CODES[key])
            _, first, which = np.unique(
                carried.number[places] * 16 + carried.kind[places],
                return_index=True, return_inverse=True,
            )  # fmt: skip
            values = [meant(carried.value(place)) for place in places[first].tolist()]
            says = np.array([value is not None for value in values], np.bool_)[which]
            found.codes[carried.row[places[says]]] = len(found._values) + which[says]
            found._values += values
        return found

    def put(self, row: int, value: AttributeValue) -> None:
        """Let a span say something else; None: nothing."""
        self.codes[row] = -1 if value is None else len(self._values)
        self._values.append(value)

    def text(self, row: int) -> str | None:
        code = int(self.codes[row])
        return None if code < 0 else str(self._values[code])

    def of_rows(self, rows: _Column) -> Words:
        """The words of spans; of a row below 0: none."""
        codes = np.where(rows < 0, -1, self.codes[np.maximum(rows, 0)])
        distinct, places = np.unique(codes, return_inverse=True)
        values: Sequence[str | None] = [
            None if code < 0 else str(self._values[code]) for code in distinct.tolist()
        ]
        return Words(places, values)
