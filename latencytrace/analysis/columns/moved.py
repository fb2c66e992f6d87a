"""Spans that ran at another time, or below another span, than they say: engines' rules tell.

The rules are those of the object path; they are asked for traces that have such spans alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.facts import MOVES, RAN_OTHERWISE, FactsOfBatch
from latencytrace.analysis.repairs.callbacks import handed_over, hung_inside
from latencytrace.analysis.repairs.outliving import outliving
from latencytrace.analysis.trace.known_engines import as_it_ran
from latencytrace.model import Span, semconv
from latencytrace.model.span_batch import SpanBatch
from latencytrace.model.trace import parents_first

_Column = NDArray[np.int64]


class Times(NamedTuple):
    """Times of the spans of a batch (n,)."""

    sent_ns: _Column  # their starts
    start_ns: _Column  # likewise, from when a proxy took a request that it held back
    end_ns: _Column


def starts_as_they_ran(
    batch: SpanBatch, sent_ns: _Column, facts: FactsOfBatch, odd_row: NDArray[np.bool_]
) -> _Column:
    """Return when spans started, where an engine's own word differs from what was sent.

    Args:
        odd_row: Takes those whose tokens are timed from the start as it was sent.
    """
    rows = np.flatnonzero((facts.of_rows(RAN_OTHERWISE) != 0) & ~odd_row)
    if not len(rows):
        return sent_ns
    starts_ns = sent_ns.copy()
    for row in rows.tolist():
        span = batch.span(row)
        starts_ns[row] = as_it_ran(span).start_ns
        odd_row[row] = semconv.TOKEN_TIMES in span.attributes
    return starts_ns


def traces_with_moves(batch: SpanBatch, facts: FactsOfBatch) -> NDArray[np.bool_]:
    """Return which traces have spans that belong, or have others beside them, elsewhere."""
    moves = np.flatnonzero(facts.of_rows(MOVES))
    found = np.zeros(len(batch.trace_ids), np.bool_)
    found[np.searchsorted(batch.first, moves, side="right") - 1] = True
    return found


def hung_anew(
    batch: SpanBatch, traces: Iterable[int], ids: tuple[_Column, _Column], times: Times
) -> tuple[_Column, Times]:
    """Return the parents and times of spans once those of some traces hang where they ran.

    Args:
        traces: Each without orphans.
        ids: Of spans, and of their parents, as `trees.link_spans` takes them.
    """
    span_ids, parents, ends_ns = ids[0], ids[1].copy(), times.end_ns.copy()
    for trace in traces:
        first, beyond = batch.first[trace : trace + 2].tolist()
        rows = first + np.argsort(batch.span_id[first:beyond])
        places: dict[str, int] = {}
        spans: dict[str, Span] = {}
        for row in rows.tolist():
            span = replace(
                batch.span(row), start_ns=int(times.start_ns[row]), end_ns=int(times.end_ns[row])
            )
            places[span.span_id], spans[span.span_id] = row, span
        hung: Mapping[str, Span] = handed_over(outliving(hung_inside(parents_first(spans))))
        for span_id, span in hung.items():
            row = places[span_id]
            ends_ns[row] = span.end_ns
            if span.parent_id is not None:
                parents[row] = span_ids[places[span.parent_id]]
    return parents, times._replace(end_ns=ends_ns)
