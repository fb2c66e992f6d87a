"""Clocks that differ, brought together trace by trace by the rule for objects."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.repairs.clock_skew import aligned
from latencytrace.model import Repair
from latencytrace.model.span_batch import SpanBatch


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
