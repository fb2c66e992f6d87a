"""Traces that memory holds, attributed over columns; what is odd is left to objects.

As a program it compiles what it needs, and ends with the process that started it:

    python -m latencytrace.service.ledgers.column_attribution [FOLDER]
"""

import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.facts import Facts
from latencytrace.analysis.columns.request_table import RequestTable
from latencytrace.analysis.columns.requests import Kernels, RequestColumns, attributed, compiled
from latencytrace.analysis.columns.tables import Tables
from latencytrace.analysis.trace.is_request import ENTRY_KINDS
from latencytrace.analysis.trace.startup import may_be_startup
from latencytrace.analysis.trace.weight import MOST
from latencytrace.model import Span, Stage, semconv
from latencytrace.model.span_batch import SpanBatch
from latencytrace.model.stage import STAGES
from latencytrace.service.ledgers.compile_ahead import (
    compile_ahead,
    functions_folder,
    is_compiled_ahead,
    note_compiled,
)
from latencytrace.service.ledgers.held_spans import Parts, by_block
from latencytrace.service.ledgers.priority import yield_to_others
from latencytrace.service.ledgers.process_starts import ProcessStarts, served_by
from latencytrace.service.otlp.batches import batch_of
from latencytrace.service.otlp.compiled.loading import (
    kept_in,
    raised_as_runtime_errors,
)
from latencytrace.service.otlp.scanner import compile_scanner

_log = logging.getLogger(__name__)

WORTH_LOADING_SPANS: Final = 1_000  # reading back what was compiled takes a second and memory
WORTH_COMPILING_SPANS: Final = 10_000  # half a minute of CPU, once for each version
HURRIED_NS: Final = 20_000_000_000  # in which so many come where each costs more the later it is
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
    """Attributes batches of traces once its kernels are compiled.

    Nobody waits for the compiler: it starts once so many spans have come that it pays, in a
    process of its own, and its work is kept on disk. With it the decoder of OTLP is compiled.

    Args:
        cache: The folder for what was compiled; None: beside the package, or wherever numba
            may write.
        ahead: See `compile_ahead`.
        max_weight: The largest weight of a request that is believed.
        now_ns: A clock that is never set back.
    """

    def __init__(
        self,
        cache: Path | None = None,
        ahead: Callable[[Path | None], None] = compile_ahead,
        max_weight: int = MOST,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.max_weight = max_weight
        self._now_ns = now_ns
        self._cache = cache
        self._ahead = ahead
        self._worth_spans: int | None = None
        self._lock = threading.Lock()
        self._facts = Facts()
        self._tables = Tables(max_weight)
        self._shape_facts = _ShapeFacts()
        self._shapes: Sequence[Span] = ()
        self._seen = 0
        self._since_ns = 0  # when the first came
        self._is_hurried = False
        self._kernels: Kernels | None = None
        self._is_ahead = False  # all was compiled before
        self._compiling: threading.Thread | None = None

    @property
    def is_compiled(self) -> bool:
        """Whether the kernels are ready."""
        return self._kernels is not None

    @property
    def is_loading(self) -> bool:
        """Tell whether the kernels are ready soon: compiled before, and read back."""
        thread = self._compiling
        return self._is_ahead and thread is not None and thread.is_alive()

    def attributed(self, held: Mapping[str, Parts], starts: ProcessStarts) -> ByColumns:
        """Attribute traces of which no request was written before, and note who served.

        Args:
            held: Where their spans are.
            starts: Which processes have served.
        """
        if self._kernels is None:
            return ByColumns(others=list(held))
        if not held:
            return ByColumns(others=[])
        parts = by_block(held.values())
        batch = batch_of(parts)
        if batch.shapes is not self._shapes:  # they are numbered anew
            self._shapes = batch.shapes
            self._facts, self._shape_facts = Facts(), _ShapeFacts()
            self._tables = Tables(self.max_weight)
        try:
            with raised_as_runtime_errors():
                columns, odd = attributed(batch, self._facts, self._kernels)
        except RuntimeError:
            _log.exception("traces are attributed as objects from now on, please report this")
            self._kernels = None
            return ByColumns(others=list(held))
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

    def table(self, found: ByColumns, starts: ProcessStarts) -> RequestTable | None:
        """The requests, once all who served in the batch are known to `starts`."""
        if found.columns is None or not len(found.chosen):
            return None
        table = self._tables.of(found.columns, found.chosen)
        return table.as_load(self._of_load(found.columns, found.chosen, starts))

    def expect(self, span_count: int) -> None:
        """Note that spans came: once there are many, begin to compile, or to load."""
        if self._compiling is not None:
            return
        if not self._seen:
            self._since_ns = self._now_ns()
        self._seen += span_count
        if self._seen < WORTH_LOADING_SPANS:
            return
        if self._worth_spans is None:
            self._is_ahead = is_compiled_ahead(self._cache)
            self._worth_spans = WORTH_LOADING_SPANS if self._is_ahead else WORTH_COMPILING_SPANS
        if self._seen >= self._worth_spans:
            self._is_hurried = self._now_ns() - self._since_ns < HURRIED_NS
            self.compile()

    def compile(self) -> threading.Thread:
        """Begin to compile, if nobody has, and return at once."""
        with self._lock:
            if self._compiling is None:
                self._compiling = threading.Thread(
                    target=self._compile, name="latencytrace-compile", daemon=True
                )
                self._compiling.start()
            return self._compiling

    def _compile(self) -> None:
        # The plain ways cost more meanwhile: where it takes a second, and under load, when a low
        # priority could mean minutes.
        if not (self._is_ahead or self._is_hurried):
            yield_to_others()
        self._ahead(self._cache)
        compile_scanner(self._cache).join()  # first, for it sets where things are kept
        try:
            with raised_as_runtime_errors():
                kernels = self._compiled()
        except (
            EOFError,
            ImportError,
            OSError,
            RuntimeError,
            UnpicklingError,
        ) as error:
            _log.info("traces are attributed as objects, for nothing can be compiled: %s", error)
            return
        self._kernels = kernels
        gc.freeze()  # no collection need look through the compiler again
        _log.info("attribution over columns is compiled")

    def _compiled(self) -> Kernels:
        import numba  # noqa: PLC0415 - half a second, and only under load

        with kept_in(functions_folder(self._cache)):
            return compiled(numba.njit(nogil=True, cache=True))

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


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def _main() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    cache = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    attribution = ColumnAttribution(cache, ahead=lambda _: None)
    attribution.compile().join()
    if attribution.is_compiled:
        note_compiled(cache)


if __name__ == "__main__":
    _main()
