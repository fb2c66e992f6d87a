"""Well-formed traces as columns of numbers, and their critical paths by the array functions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.critical_paths import descend, gather, win
from latencytrace.model import Interval, Segment, Span, Trace
from latencytrace.model.stage import STAGES

_NUMBERS = {stage: number for number, stage in enumerate(STAGES)}

Column = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanColumns:
    """The spans of `t` traces, `n` in all, with their `m` packed intervals.

    A trace's root comes first, and the children of each span lie side by side, in
    order of start, those that start together in order of their span ids.
    """

    first: Column  # (t + 1,): where each trace begins; its last element is n
    start_ns: Column  # (n,)
    end_ns: Column  # (n,)
    stage: Column  # (n,)
    children: Column  # (n, 2): where each span's children begin and end
    outlives: NDArray[np.bool_]  # (n,): it went on after its parent (see `Trace.outlives`)
    intervals: Column  # (n + 1,): where each span's intervals begin; the last element is m
    interval_start_ns: Column  # (m,), those of a span in order of start
    interval_end_ns: Column  # (m,)
    interval_stage: Column  # (m,)
    spans: Sequence[Span]  # (n,)

    @classmethod
    def of(cls, traces: Iterable[Trace]) -> Self:
        """Lay traces out.

        Args:
            traces: Every child lies within its parent (see `analysis.build_trace`).
        """
        first = [0]
        spans: list[Span] = []
        stages: list[int] = []
        children: list[tuple[int, int]] = []
        outlives: list[bool] = []
        ends: list[int] = [0]
        intervals: list[Interval] = []
        for trace in traces:
            at = len(spans)
            spans.append(trace.root)
            outlives.append(False)
            while at < len(spans):
                parent = spans[at]
                span_id = parent.span_id
                below: Sequence[Span] = trace.children.get(span_id, ())
                children.append((len(spans), len(spans) + len(below)))
                below = sorted(below, key=_order) if len(below) > 1 else below
                spans += below
                outlives += [trace.outlives(child, parent) for child in below]
                stages.append(_NUMBERS[trace.stages[span_id]])
                intervals += sorted(trace.intervals.get(span_id, ()), key=_start)
                ends.append(len(intervals))
                at += 1
            first.append(at)
        return cls(
            first=np.array(first, np.int64),
            start_ns=np.array([span.start_ns for span in spans], np.int64),
            end_ns=np.array([span.end_ns for span in spans], np.int64),
            stage=np.array(stages, np.int64),
            children=np.array(children, np.int64).reshape(-1, 2),
            outlives=np.array(outlives, np.bool_),
            intervals=np.array(ends, np.int64),
            interval_start_ns=np.array([one.start_ns for one in intervals], np.int64),
            interval_end_ns=np.array([one.end_ns for one in intervals], np.int64),
            interval_stage=np.array([_NUMBERS[one.stage] for one in intervals], np.int64),
            spans=spans,
        )


def _order(span: Span) -> tuple[int, str]:
    return (span.start_ns, span.span_id)


def _start(interval: Interval) -> int:
    return interval.start_ns


def critical_paths(columns: SpanColumns) -> list[tuple[Segment, ...]]:
    """Charge each nanosecond of many requests to the span that held it up.

    Args:
        columns: The requests' traces.

    Returns:
        For each trace what `analysis.ledger.critical_path.critical_path` gives.
    """
    return _segments(columns, segments(columns))


def segments(columns: SpanColumns) -> Column:
    """The paths as rows of trace, start, end, stage and span, in order of trace and time."""
    winners, won = win(
        columns.intervals, columns.interval_start_ns, columns.interval_end_ns,
        columns.interval_stage,
    )  # fmt: skip
    parts, tracks = descend(
        columns.first, columns.start_ns, columns.end_ns, columns.stage, columns.children,
        columns.outlives, winners, won,
    )  # fmt: skip
    return gather(parts, tracks)


def _segments(columns: SpanColumns, found: Column) -> list[tuple[Segment, ...]]:
    trees, starts_ns, ends_ns, stages, rows = found.T.tolist()
    paths: list[list[Segment]] = [[] for _ in columns.first[:-1]]
    roots = columns.first.tolist()
    spans = columns.spans
    for tree, start_ns, end_ns, stage, row in zip(
        trees, starts_ns, ends_ns, stages, rows, strict=True
    ):
        origin_ns = spans[roots[tree]].start_ns
        paths[tree].append(
            Segment(
                start_ns=start_ns - origin_ns,
                end_ns=end_ns - origin_ns,
                stage=STAGES[stage],
                span_id=spans[row].span_id,
                name=spans[row].name,
            )
        )
    return [tuple(path) for path in paths]
