"""Well-formed traces as columns of numbers, for arithmetic over many of them at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.interval import Interval
from latencytrace.model.span import Span
from latencytrace.model.stage import Stage
from latencytrace.model.trace import Trace

STAGES = tuple(Stage)  # a stage's number is its place
_NUMBERS = {stage: number for number, stage in enumerate(STAGES)}

Times = NDArray[np.int64]  # ns since the Unix epoch
Rows = NDArray[np.int64]
Numbers = NDArray[np.int64]  # of stages


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanColumns:
    """The spans of `t` traces, `n` in all, with their `m` packed intervals.

    A trace's root comes first, and the children of each span lie side by side, in
    order of start, those that start together in order of their span ids.
    """

    first: Rows  # (t + 1,): where each trace begins; its last element is n
    start_ns: Times  # (n,)
    end_ns: Times  # (n,)
    stage: Numbers  # (n,)
    children: Rows  # (n, 2): where each span's children begin and end
    outlives: NDArray[np.bool_]  # (n,): it went on after its parent (see `Trace.outlives`)
    intervals: Rows  # (n + 1,): where each span's intervals begin; the last element is m
    interval_start_ns: Times  # (m,), those of a span in order of start
    interval_end_ns: Times  # (m,)
    interval_stage: Numbers  # (m,)
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
