"""The spans of whole traces as columns, before anything is repaired."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.span import AttributeValue, Span

Rows = NDArray[np.int64]
Times = NDArray[np.int64]  # ns since the Unix epoch
Ids = NDArray[np.uint64]  # of spans, as big-endian numbers


TEXT, EMPTY = 1, 8  # kinds of values: a text, and one without a letter; others are OTLP's forms


class Resource(NamedTuple):
    """The process that a span is of, as far as anything is asked of it."""

    service: str
    instance: str | None
    host: str | None
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedValues:
    """The attributes of `n` spans, `m` in all; the items of lists lie behind them.

    Nothing is decided by them: they are handed through to requests, seen before or not. Places
    are numbers of attributes or items.
    """

    begin: Rows  # (n,): where those of each span begin; they lie side by side, in their order
    count: Rows  # (n,): how many it has
    row: Rows  # (m,): of which row of the batch
    code: NDArray[np.int32]  # (m,): of each one's key (`analysis.columns.keys`); 0: any other
    kind: NDArray[np.int32]  # (m,): of its value: of one kind and number there is one value
    number: Rows  # from 1 on, of its key and the text of its value: always the same for the same
    item: Rows  # (m,): where what requests show of it begins: itself, or the items of a list
    items: Rows  # (m,): how many that are; 0: they show nothing
    keys: Callable[[Rows], tuple[Rows, Sequence[str]]]  # of places: which key each has, and those
    texts: Callable[[Rows], tuple[bytes, Rows]]  # their texts, each after its length; their sizes
    value: Callable[[int], AttributeValue]  # that of a place


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanBatch:
    """The spans of `t` traces, `n` in all; the rows of a trace lie side by side.

    What a span says is of three kinds: its resource; its shape, which is all that rules decide by
    (`analysis.columns.shapes`); and what it carries. How many shapes there are depends on rules
    and libraries alone.
    """

    trace_ids: Sequence[str]  # (t,): 32 lower-case hex digits
    first: Rows  # (t + 1,): where each trace begins; its last element is n
    span_id: Ids  # (n,)
    parent_id: Ids  # (n,); 0: none
    start_ns: Times  # (n,); below 0: beyond what fits
    end_ns: Times  # (n,)
    shape: NDArray[np.int32]  # (n,); -1: none, it is odd
    shapes: Sequence[Span]  # of each a span that says nothing else; more are added
    first_shape: int = 0  # the number of the first of them
    resource: Rows  # (n,): its place among the next
    resources: Sequence[Resource]
    name: Rows  # (n,): the same for the same name, always
    counts: Mapping[str, tuple[Rows, NDArray[np.int64]]]  # by key: rows in order, values
    packed: Mapping[
        str, tuple[Rows, Sequence[AttributeValue]]
    ]  # rows that have the key, and their values
    carried: CarriedValues
    target: Rows  # (n,): the same for calls to the same target (`calls.retries`); 0: it names none
    name_of: Callable[[int], str]  # the name of a row
    span: Callable[[int], Span]  # the whole span of a row
    stated: Rows  # those with a `tracestate`, in order
    trace_state: Callable[[int], str]  # that of a row

    def bare(self, row: int) -> Span:
        """A row's span without its attributes, events and links."""
        trace = int(np.searchsorted(self.first, row, side="right")) - 1
        parent_id = int(self.parent_id[row])
        shape = self.shapes[self.shape[row] - self.first_shape]
        resource = self.resources[self.resource[row]]
        return Span(
            trace_id=self.trace_ids[trace],
            span_id=f"{int(self.span_id[row]):016x}",
            parent_id=f"{parent_id:016x}" if parent_id else None,
            name=self.name_of(row),
            kind=shape.kind,
            service=resource.service,
            instance=resource.instance,
            host=resource.host,
            version=resource.version,
            start_ns=int(self.start_ns[row]),
            end_ns=int(self.end_ns[row]),
            status=shape.status,
        )
