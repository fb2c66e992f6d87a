"""Clocks that differ, brought together trace by trace by the rule for objects."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.facts import FactsOfBatch
from latencytrace.analysis.repairs.clock_skew import aligned
from latencytrace.model import Repair, Span
from latencytrace.model.span_batch import SpanBatch


def shifts(
    batch: SpanBatch, facts: FactsOfBatch, traces: Iterable[int]
) -> tuple[NDArray[np.int64], dict[int, Repair]]:
    """By how much the spans of traces are moved; and by row what is reported of it."""
    moved_ns = np.zeros(len(batch.span_id), np.int64)
    reported: dict[int, Repair] = {}
    for trace in traces:
        first, beyond = batch.first[trace : trace + 2].tolist()
        rows = first + np.argsort(batch.span_id[first:beyond])
        spans = {span.span_id: span for span in (_bare(batch, facts, row) for row in rows)}
        moved, repairs = aligned(spans, ())
        for row, (span_id, span) in zip(rows.tolist(), spans.items(), strict=True):
            moved_ns[row] = moved[span_id].start_ns - span.start_ns
        places = dict(zip(spans, rows.tolist(), strict=True))
        reported.update({places[repair.span_id]: repair for repair in repairs})
    return moved_ns, reported


def _bare(batch: SpanBatch, facts: FactsOfBatch, row: int) -> Span:
    """The parts of a span that tell of its clock."""
    like = facts.template(batch, row)
    parent_id = int(batch.parent_id[row])
    return Span(
        trace_id=like.trace_id,
        span_id=f"{int(batch.span_id[row]):016x}",
        parent_id=f"{parent_id:016x}" if parent_id else None,
        name=like.name,
        kind=like.kind,
        service=like.service,
        instance=like.instance,
        host=like.host,
        start_ns=int(batch.start_ns[row]),
        end_ns=int(batch.end_ns[row]),
    )
