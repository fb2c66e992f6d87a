"""The contract of a store: it keeps spans and requests and answers questions about them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from latencytrace.errors import PluginError
from latencytrace.model import Breakdown, Request, Span
from latencytrace.model.request_columns import DurationBand, RequestColumns
from latencytrace.plugins import STORES, load_plugin
from latencytrace.service.cohort import Cohort
from latencytrace.service.otlp.span_block import SpanBlock

Revisions = Mapping[tuple[str, str], int]  # (trace id, request span id) → highest revision


NONE_WITHDRAWN: Revisions = MappingProxyType({})
ALL_DURATIONS = (DurationBand(),)


class Order(StrEnum):
    """The order in which requests are listed."""

    SLOWEST = "slowest"
    NEWEST = "newest"


class TableFormat(StrEnum):
    """The format of a table of ledgers."""

    CSV = "csv"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedPart:
    """A piece of a table that could not be read and was set aside."""

    table: str
    name: str
    rows: int | None  # in it; None: unknown
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was written."""

    at_ns: int  # the moment it is written under
    withdrawn: int  # requests that stood before


class Store(Protocol):
    """Keeps `span_arrivals`, `requests` and `spans` (DESIGN parts 2 and 7).

    Every method blocks, may be called from any thread, and raises `StoreError`
    with what to do when the engine cannot do what was asked.
    """

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a store, creating what is missing and setting aside what is torn.

        Args:
            folder: The data folder.

        Raises:
            StoreInUseError: Another process owns the folder; the message names it.
        """
        ...

    def insert(self, blocks: Sequence[SpanBlock]) -> None:
        """Keep every span of blocks.

        When it returns, the spans survive the death of this process: as many rows were written
        as there are spans.

        Raises:
            PoisonedBlockError: The engine cannot read a block; nothing of them was kept.
            StoreError: Not all of it was kept, because the disk is full and the like.
        """
        ...

    def arrived(self, trace_ids: Collection[str]) -> Mapping[str, tuple[Span, ...]]:
        """Every span that arrived for these traces, each (trace id, span id) once."""
        ...

    def arrived_counts(self, trace_ids: Collection[str]) -> Mapping[str, int]:
        """How many spans arrived for these traces, as often as they came; 0 is not named."""
        ...

    def revisions(self, trace_ids: Collection[str]) -> Revisions:
        """The highest revision written of each request of these traces."""
        ...

    def written(self, trace_ids: Collection[str]) -> Sequence[Request]:
        """The requests of these traces, the highest revision of each."""
        ...

    def kept_counts(self, trace_ids: Collection[str]) -> Mapping[str, int]:
        """How many spans are in `spans` of these traces; none is not named."""
        ...

    def unassembled(self) -> Sequence[str]:
        """Traces with spans that arrived after the last request of theirs was written.

        They are assembled again after a crash.
        """
        ...

    def without_ledger(self, since_ns: int, until_ns: int) -> Sequence[str]:
        """Traces whose root arrived in a stretch of time, and which have no request.

        Shared steps are none. The stretch lies in the last two hours.
        """
        ...

    def last_written_ns(self) -> int:
        """The latest moment that requests were written under; 0: none were."""
        ...

    def uncounted(self, until_ns: int) -> Sequence[tuple[int, Request]]:
        """Requests written after a moment and not counted before, with when, in this order."""
        ...

    def write(
        self,
        requests: Sequence[Request],
        keep_spans_of: Collection[str],
        withdrawn: Revisions = NONE_WITHDRAWN,
        age_ns: int = 0,
        counted: Collection[tuple[str, str]] = (),
    ) -> Written:
        """Keep requests, and note traces whose arrived spans are to be copied to `spans`.

        The traces first: a crash between the two leaves them unassembled. They outlive this
        process, and whoever asks for their spans is answered from the arrivals.

        Args:
            requests: Each of a higher revision than what was written of it before, or
                the very same as that.
            keep_spans_of: Traces; many of them are copied at once, few at `keep_noted`.
            withdrawn: Requests written before that are none any more, for a span that
                came later holds them; no question finds them again.
            age_ns: How long ago the spans were read. A trace is unassembled if more arrived
                since.
            counted: Those of the requests (trace id, span id) that metrics and objectives
                have counted under an earlier revision.

        Returns:
            The moment it is written under, later than that of any call before.
        """
        ...

    def known_traces(self) -> NDArray[np.uint64]:
        """The ids of all traces that have a request: (n, 2), the high and the low halves."""
        ...

    def keep(self, parts: Sequence[tuple[SpanBlock, NDArray[np.int64]]]) -> None:
        """Keep these rows of blocks, so that they are found when their arrivals are gone."""
        ...

    def keep_noted(self) -> None:
        """Copy the spans of all traces that are noted, while the arrivals are still there."""
        ...

    def services(self) -> Sequence[str]:
        """The services that have requests, in order of name."""
        ...

    def instances(self) -> Sequence[tuple[str, str]]:
        """Services and instances that have served requests, those of the last week."""
        ...

    def routes(self, service: str | None) -> Sequence[str]:
        """The routes that have requests, in order of name."""
        ...

    def breakdown(self, cohort: Cohort) -> Breakdown:
        """Time per stage over a cohort; health routes are counted apart.

        Where the cohort names a route, that route counts, health or not.
        """
        ...

    def requests(self, cohort: Cohort, order: Order, limit: int) -> Sequence[Request]:
        """Requests of a cohort, each with its segments; health routes only if named."""
        ...

    def count(self, cohort: Cohort) -> int:
        """How many requests of a cohort there are, of those that `requests` lists."""
        ...

    def ledgers(self, cohort: Cohort, table_format: TableFormat) -> bytes:
        """A row for each of them in order of start, a column for each stage.

        The columns of stages are nanoseconds, 0 where it is absent; they add up to the
        duration. Unknown is empty in CSV.
        """
        ...

    def durations(self, cohort: Cohort) -> NDArray[np.int64]:
        """How long each of them took, in no order."""
        ...

    def cohort_columns(
        self,
        cohort: Cohort,
        bands: Sequence[DurationBand] = ALL_DURATIONS,
        *,
        attributes: bool = False,
    ) -> RequestColumns:
        """Those of them that lie in one of these bands, which do not overlap.

        Their attributes are read where they are asked for.
        """
        ...

    def request(self, trace_id: str, span_id: str | None) -> Request | None:
        """One request, its highest revision; no span id: the outermost of its trace."""
        ...

    def kept_spans(self, trace_id: str) -> tuple[Span, ...]:
        """The spans of a trace, from `spans` or else from the arrivals; empty: not kept."""
        ...

    def requests_of(self, trace_ids: Collection[str]) -> Sequence[Request]:
        """The requests of these traces for who asks, the highest revision of each."""
        ...

    def spans_at(self, places: Collection[tuple[str, str]]) -> tuple[Span, ...]:
        """The spans at these places (trace id, span id), kept or arrived, each once."""
        ...

    def spans_of_id(self, span_id: str) -> tuple[Span, ...]:
        """The spans with this id, of any trace, kept or arrived, each once."""
        ...

    def linking_to(self, span: Span) -> tuple[Span, ...]:
        """The spans with a link to this one, kept or arrived, each once.

        Those that began before it ended, and at most ten minutes before it began.
        """
        ...

    def damaged_parts(self) -> Sequence[DamagedPart]:
        """The pieces that were set aside, since the folder was opened or before."""
        ...

    def close(self) -> None:
        """Let go of the folder."""
        ...


def open_store(engine: str, folder: Path) -> Store:
    """Open the store of an engine.

    Raises:
        PluginError: No such engine is installed.
        StoreInUseError: Another process owns the folder.
    """
    opened = getattr(load_plugin(STORES, engine), "open", None)
    if opened is None:
        raise PluginError(f"store {engine!r} cannot be opened")
    store: Store = opened(folder)
    return store
