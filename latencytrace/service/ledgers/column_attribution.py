"""Traces that memory holds, attributed over columns; what is odd is left to objects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.compiled.core import core
from latencytrace.analysis.columns.facts import Facts
from latencytrace.analysis.columns.requests import RequestColumns, attributed
from latencytrace.analysis.columns.tables import Tables
from latencytrace.analysis.trace.is_request import ENTRY_KINDS
from latencytrace.analysis.trace.startup import may_be_startup
from latencytrace.analysis.trace.weight import MOST
from latencytrace.model import Span, Stage, semconv
from latencytrace.model.span_batch import SpanBatch
from latencytrace.model.stage import STAGES
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.ledgers.process_starts import ProcessStarts, served_by
from latencytrace.service.ledgers.span_parts import Parts, by_block
from latencytrace.service.otlp.batches import batch_of

_LOAD: Final = STAGES.index(Stage.LOAD)


@dataclass(slots=True)
class ByColumns:
    """What became of traces."""

    others: list[str]  # traces that objects must take
    columns: RequestColumns | None = None
    chosen: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    starts: list[str] = field(default_factory=list)  # see `ProcessStarts.served`
    content_removed: int = 0
    device_spans: list[Span] = field(default_factory=list)  # that had a GPU do something


class ColumnAttribution:
    """Attributes batches of traces.

    Args:
        max_weight: The largest weight of a request that is believed.
        is_used: Where nothing is compiled, objects take all.
    """

    def __init__(self, max_weight: int = MOST, *, is_used: bool = core is not None) -> None:
        self.max_weight = max_weight
        self._is_used = is_used
        self._facts = Facts()
        self._tables = Tables(max_weight)
        self._shape_facts = _ShapeFacts()
        self._shapes: Sequence[Span] = ()

    def attributed(self, held: Mapping[str, Parts], starts: ProcessStarts) -> ByColumns:
        """Attribute traces of which no request was written before, and note who served.

        Args:
            held: Where their spans are.
            starts: Which processes have served.
        """
        if not self._is_used:
            return ByColumns(others=list(held))
        if not held:
            return ByColumns(others=[])
        parts = by_block(held.values())
        batch = batch_of(parts)
        if batch.shapes is not self._shapes:  # they are numbered anew
            self._shapes = batch.shapes
            self._facts, self._shape_facts = Facts(), _ShapeFacts()
            self._tables = Tables(self.max_weight)
        columns, odd = attributed(batch, self._facts)
        is_odd = np.zeros(len(batch.trace_ids), np.bool_)
        is_odd[odd] = True
        has_request = np.zeros(len(batch.trace_ids), np.bool_)
        has_request[columns.requests[:, 1]] = True
        is_odd |= ~has_request  # a shared step, or its root has not come
        found = ByColumns(others=[batch.trace_ids[one] for one in np.flatnonzero(is_odd).tolist()])
        in_trace = np.repeat(~is_odd, np.diff(batch.first))
        self._shape_facts.learn(batch.shapes)
        found.starts = self._note_served(batch, in_trace, starts)
        found.device_spans = [
            batch.span(row) for row in self._rows(batch, in_trace, _ShapeFacts.DEVICE)
        ]
        found.columns = columns
        found.chosen = np.flatnonzero(~is_odd[columns.requests[:, 1]])
        if any(block.table["removed"].any() for block, _ in parts):
            whole = by_block(held[one] for one in held.keys() - set(found.others))
            found.content_removed = sum(
                int(block.table["removed"][rows].sum()) for block, rows in whole
            )
        return found

    def table(self, found: ByColumns, starts: ProcessStarts) -> LedgerTable | None:
        """The requests, once all who served in the batch are known to `starts`."""
        if found.columns is None or not len(found.chosen):
            return None
        table = self._tables.of(found.columns, found.chosen)
        return LedgerTable.new(table.as_load(self._of_load(found.columns, found.chosen, starts)))

    def _rows(self, batch: SpanBatch, in_trace: NDArray[np.bool_], fact: int) -> Sequence[int]:
        """The rows of shapes of which a fact holds, or that have none."""
        found: list[int] = np.flatnonzero(
            in_trace & self._shape_facts.table[batch.shape, fact]
        ).tolist()
        return found

    def _note_served(
        self, batch: SpanBatch, in_trace: NDArray[np.bool_], starts: ProcessStarts
    ) -> list[str]:
        """Note the first span by which each process served, as if all were reported."""
        rows = np.array(self._rows(batch, in_trace, _ShapeFacts.SERVES), np.int64)
        if not len(rows):
            return []
        rows = rows[np.lexsort((batch.start_ns[rows], batch.shape[rows]))]
        is_first = np.diff(batch.shape[rows], prepend=-2) != 0
        is_first |= batch.shape[rows] < 0
        return starts.served(served_by([batch.span(row) for row in rows[is_first].tolist()]))

    def _of_load(
        self, columns: RequestColumns, chosen: NDArray[np.int64], starts: ProcessStarts
    ) -> list[int]:
        """The places of what a process did before it served."""
        batch = columns.batch
        rows = columns.requests[chosen, 0]
        asked = self._shape_facts.table[batch.shape[rows], _ShapeFacts.NOT_ENTRY]
        found = []
        for place in np.flatnonzero(asked).tolist():
            number = chosen[place]
            root = batch.span(int(rows[place]))
            if not may_be_startup(root):
                continue
            reported = root.attributes.get(semconv.STARTUP) is True
            stage = int(columns.trees.stage[columns.trees.first[number]])
            if reported or stage == _LOAD or starts.is_start(root):
                found.append(place)
        return found


class _ShapeFacts:
    """What the service asks of shapes, found out once each; of no shape all of it holds."""

    SERVES: Final = 0  # by such a span a known process serves
    DEVICE: Final = 1  # it has a device's attributes
    NOT_ENTRY: Final = 2  # as a root it may be of starting up

    def __init__(self) -> None:
        self.table = np.ones((1, 3), np.bool_)
        self._known = 0

    def learn(self, shapes: Sequence[Span]) -> None:
        """Find out about new ones; the last row of the table, -1, is that of no shape."""
        if len(shapes) == self._known:
            return
        new = [
            (
                span.kind in ENTRY_KINDS and span.instance is not None,
                semconv.DEVICE_ID in span.attributes,
                span.kind not in ENTRY_KINDS,
            )
            for span in shapes[self._known :]
        ]
        self._known += len(new)
        self.table = np.concatenate([self.table[:-1], np.array(new, np.bool_), self.table[-1:]])
