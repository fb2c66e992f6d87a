"""The spans of whole traces as columns, before anything is repaired."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.span import AttributeValue, Span

Rows = NDArray[np.int64]
Times = NDArray[np.int64]  # ns since the Unix epoch
Ids = NDArray[np.uint64]  # of spans, as big-endian numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanBatch:
    """The spans of `t` traces, `n` in all; the rows of a trace lie side by side.

    What spans have in common apart from ids, times and varying values is their shape (see
    `analysis.columns.keys`): what follows from it alone is found out once.
    """

    trace_ids: Sequence[str]  # (t,): 32 lower-case hex digits
    first: Rows  # (t + 1,): where each trace begins; its last element is n
    span_id: Ids  # (n,)
    parent_id: Ids  # (n,); 0: none
    start_ns: Times  # (n,)
    end_ns: Times  # (n,)
    shape: NDArray[np.int32]  # (n,); -1: none, for there were too many
    shapes: Sequence[Span]  # by number: the first span that was seen of each
    counts: Mapping[str, tuple[Rows, NDArray[np.int64]]]  # by key: rows in order, values
    packed: Mapping[str, tuple[Rows, Sequence[AttributeValue]]]  # likewise
    span: Callable[[int], Span]  # the whole span of a row
