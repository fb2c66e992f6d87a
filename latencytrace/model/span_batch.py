"""The spans of whole traces as columns, before anything is repaired."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.span import AttributeValue, Span

Rows = NDArray[np.int64]
Times = NDArray[np.int64]  # ns since the Unix epoch
Ids = NDArray[np.uint64]  # of spans, as big-endian numbers

Varying = tuple[str, int | None, AttributeValue]  # key, count, or else value

_BEYOND = 1 << 63  # what no column of times holds


class ShapeTable(Protocol):
    """Hands out the numbers of shapes (see `analysis.columns.shapes`)."""

    @property
    def spans(self) -> Sequence[Span]:
        """By number: the first span that was seen of each shape."""

    def read(self, span: Span) -> tuple[int, Sequence[Varying]]:
        """The number of a span's shape, -1 if none is left; and what does not belong to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanBatch:
    """The spans of `t` traces, `n` in all; the rows of a trace lie side by side.

    What spans have in common apart from ids, times and varying values is their shape: what
    follows from it alone is found out once. Which attributes vary, and which no rule reads, says
    `analysis.columns.keys`: a shape holds all others, in order, and of the varying ones where
    among them they stand; and the names of the events, and whether there are links. A finer
    distinction is as good.
    """

    trace_ids: Sequence[str]  # (t,): 32 lower-case hex digits
    first: Rows  # (t + 1,): where each trace begins; its last element is n
    span_id: Ids  # (n,)
    parent_id: Ids  # (n,); 0: none
    start_ns: Times  # (n,); below 0: beyond what fits
    end_ns: Times  # (n,)
    shape: NDArray[np.int32]  # (n,); -1: none, for there were too many
    shapes: Sequence[Span]  # by number: the first span that was seen of each
    counts: Mapping[str, tuple[Rows, NDArray[np.int64]]]  # by key: rows in order, values
    packed: Mapping[str, tuple[Rows, Sequence[AttributeValue]]]  # likewise
    span: Callable[[int], Span]  # the whole span of a row
    stated: Rows  # those with a `tracestate`, in order
    trace_state: Callable[[int], str]  # that of a row

    @classmethod
    def of(cls, spans_by_trace: Mapping[str, Sequence[Span]], shapes: ShapeTable) -> Self:
        """Lay spans out.

        Args:
            spans_by_trace: By trace id, in any order. Their ids are of hex digits.
            shapes: Numbers their shapes.
        """
        spans = [span for together in spans_by_trace.values() for span in together]
        counts: dict[str, tuple[list[int], list[int]]] = {}
        packed: dict[str, tuple[list[int], list[AttributeValue]]] = {}
        shape: list[int] = []
        for row, span in enumerate(spans):
            number, varying = shapes.read(span)
            shape.append(number)
            for key, count, value in varying:
                if count is None:
                    rows, values = packed.setdefault(key, ([], []))
                    values.append(value)
                else:
                    rows, numbers = counts.setdefault(key, ([], []))
                    numbers.append(count)
                rows.append(row)
        lengths = [len(together) for together in spans_by_trace.values()]
        return cls(
            trace_ids=tuple(spans_by_trace),
            first=np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64),
            span_id=np.array([int(span.span_id, 16) for span in spans], np.uint64),
            parent_id=np.array([int(span.parent_id or "0", 16) for span in spans], np.uint64),
            start_ns=np.array([_time(span.start_ns) for span in spans], np.int64),
            end_ns=np.array([_time(span.end_ns) for span in spans], np.int64),
            shape=np.array(shape, np.int32),
            shapes=shapes.spans,
            counts={key: (_rows(rows), _rows(found)) for key, (rows, found) in counts.items()},
            packed={key: (_rows(rows), values) for key, (rows, values) in packed.items()},
            span=spans.__getitem__,
            stated=_rows([row for row, span in enumerate(spans) if span.trace_state]),
            trace_state=lambda row: spans[row].trace_state,
        )


def _rows(numbers: Sequence[int]) -> Rows:
    return np.array(numbers, np.int64)


def _time(time_ns: int) -> int:
    return time_ns if time_ns < _BEYOND else -1
