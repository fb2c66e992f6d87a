"""The column path: attributes traces in memory; odd ones are left to the object path."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.compiled.core import core
from latencytrace.analysis.columns.facts import IS_ENTRY, SERVER, STARTS_UP, USES_DEVICE, Facts
from latencytrace.analysis.columns.requests import RequestColumns, attributed
from latencytrace.analysis.columns.tables import Tables
from latencytrace.analysis.repairs.implausible import DATED_NS, WEEK_NS, Plausible
from latencytrace.analysis.trace.weight import MOST
from latencytrace.model import Span, Stage
from latencytrace.model.stage import STAGES
from latencytrace.service.clock import now_ns
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.ledgers.process_starts import ProcessStarts
from latencytrace.service.ledgers.span_parts import Parts, by_block, in_few_blocks
from latencytrace.service.otlp.batches import batch_of

_AHEAD_NS: Final = 86_400 * 10**9  # of this clock: no sender's is more
_FEW_SPANS: Final = 64  # of a block: more are not worth to be copied
_LOAD: Final = STAGES.index(Stage.LOAD)


# Bugs of ours: as in `attribution`, and what a wrong size in C may raise.
FAULTS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError,
    ValueError, MemoryError,
)  # fmt: skip
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ByColumns:
    """The result of the column path."""

    others: list[str]  # traces left to the object path
    faulty: Sequence[str] = ()  # those of `others` that made the column path fail
    columns: RequestColumns | None = None
    chosen: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    table: LedgerTable | None = None  # of the chosen requests
    starts: list[str] = field(default_factory=list)  # traces of startup, attributed as requests
    content_removed: int = 0
    device_spans: list[Span] = field(default_factory=list)  # that used a GPU


class ColumnAttribution:
    """Attributes batches of traces.

    Args:
        max_weight: A larger weight of a request counts as 1.
        longest_ns: A span that lasts longer was not timed.
        is_used: False: everything takes the object path, as without compiled functions.
    """

    def __init__(
        self,
        max_weight: int = MOST,
        longest_ns: int = WEEK_NS,
        *,
        is_used: bool = core is not None,
    ) -> None:
        self.max_weight = max_weight
        self.longest_ns = longest_ns
        self._is_used = is_used
        self._facts = Facts()
        self._tables = Tables(max_weight)

    def plausible(self) -> Plausible:
        """Return the times that are believed now."""
        return Plausible(
            longest_ns=self.longest_ns, earliest_ns=DATED_NS, latest_ns=now_ns() + _AHEAD_NS
        )

    def attributed(self, held: Mapping[str, Parts], starts: ProcessStarts) -> ByColumns:
        """Attribute traces of which no request was written before.

        Traces that make it fail are left to the object path; the others of the batch are not.

        Args:
            held: Spans in memory, by trace.
            starts: Gets the processes that served requests.
        """
        if not self._is_used:
            return ByColumns(others=list(held))
        if not held:
            return ByColumns(others=[])
        try:
            found = self._of_batch(held)
        except FAULTS:
            _log.exception("traces are attributed as objects, please report this")
            faulty = self._that_fail(held)
            found = self._without(faulty, held)
        if found.columns is not None:
            self._note(found, held, starts)
        return found

    def _that_fail(self, held: Mapping[str, Parts]) -> list[str]:
        """Find the traces that make a batch fail, by halving it."""
        if len(held) == 1:
            return list(held)
        ids, failing = list(held), []
        for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :]):
            part = {one: held[one] for one in half}
            try:
                self._of_batch(part)
            except FAULTS:
                failing += self._that_fail(part)
        return failing

    def _without(self, faulty: Sequence[str], held: Mapping[str, Parts]) -> ByColumns:
        """Attribute a batch without the traces that make it fail."""
        rest = {one: held[one] for one in held.keys() - set(faulty)}
        try:
            found = self._of_batch(rest) if rest else ByColumns(others=[])
        except FAULTS:
            return ByColumns(others=list(held), faulty=list(held))
        found.others += faulty
        found.faulty = faulty
        return found

    def _of_batch(self, held: Mapping[str, Parts]) -> ByColumns:
        batch = batch_of(list(in_few_blocks(by_block(held.values()), _FEW_SPANS)))
        columns, odd = attributed(batch, self._facts, self.plausible())
        is_odd = np.zeros(len(batch.trace_ids), np.bool_)
        is_odd[odd] = True
        has_request = np.zeros(len(batch.trace_ids), np.bool_)
        has_request[columns.requests[:, 1]] = True
        is_odd |= ~has_request  # a shared step, or its root has not come
        found = ByColumns(others=[batch.trace_ids[one] for one in np.flatnonzero(is_odd).tolist()])
        found.columns = columns
        found.chosen = np.flatnonzero(~is_odd[columns.requests[:, 1]])
        if len(found.chosen):
            found.table = LedgerTable.new(self._tables.of(columns, found.chosen))
        return found

    def _note(self, found: ByColumns, held: Mapping[str, Parts], starts: ProcessStarts) -> None:
        """Note processes that served, spans that used a device, and how much was redacted."""
        others = set(found.others)
        columns = cast(RequestColumns, found.columns)
        batch, facts = columns.batch, columns.facts
        is_chosen = np.array([one not in others for one in batch.trace_ids], np.bool_)
        in_trace = np.repeat(is_chosen, np.diff(batch.first))
        served = np.flatnonzero(in_trace & (facts.of_rows(IS_ENTRY) != 0))
        served = served[np.lexsort((batch.start_ns[served], batch.resource[served]))]
        is_first = np.diff(batch.resource[served], prepend=-1) != 0  # of its process
        rows = served[is_first]
        processes = [batch.resources[one] for one in batch.resource[rows].tolist()]
        found.starts = starts.served(
            ((one.service, one.instance), start_ns)
            for one, start_ns in zip(processes, batch.start_ns[rows].tolist(), strict=True)
            if one.instance is not None
        )
        devices = np.flatnonzero(in_trace & (facts.of_rows(USES_DEVICE) != 0))
        found.device_spans = list(map(batch.span, devices.tolist()))
        whole = by_block(held[one] for one in held.keys() - others)
        found.content_removed = sum(
            int(block.table["removed"][rows].sum()) for block, rows in whole
        )

    def table(self, found: ByColumns, starts: ProcessStarts) -> LedgerTable | None:
        """Return the requests; call it once `starts` knows all processes of the batch."""
        if found.columns is None or found.table is None:
            return None
        load = _of_load(found.columns, found.chosen, starts)
        return found.table.as_load(load)


def _of_load(
    columns: RequestColumns, chosen: NDArray[np.int64], starts: ProcessStarts
) -> list[int]:
    """Return the places of the requests that are startup of their process."""
    batch, rows = columns.batch, columns.requests[chosen, 0]
    may_be = (columns.facts.of_rows(SERVER)[rows] == 0) & (batch.parent_id[rows] == 0)
    starts_up = columns.facts.of_rows(STARTS_UP)
    found = []
    for place in np.flatnonzero(may_be).tolist():
        row = int(rows[place])
        stage = int(columns.trees.stage[columns.trees.first[chosen[place]]])
        if starts_up[row] or stage == _LOAD or starts.is_start(batch.bare(row)):
            found.append(place)
    return found
