"""The contract of a store: it keeps spans and requests and answers questions about them."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import wraps
from pathlib import Path
from traceback import extract_tb
from types import FunctionType, MappingProxyType
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from latencytrace.errors import LatencytraceError, PluginError, StoreError
from latencytrace.model import Breakdown, Request, RequestStatus, Span, Stage
from latencytrace.model.cohorts.overview import (
    Groups,
    HeatCell,
    Overview,
    RouteBreakdowns,
    StageColumn,
)
from latencytrace.model.cohorts.request_columns import (
    DurationBand,
    Durations,
    RequestColumns,
    RequestTimes,
    weights_of,
)
from latencytrace.plugins import STORES, load_plugin
from latencytrace.service import plain_answers
from latencytrace.service.cohort import Cohort
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.otlp.span_block import SpanBlock

_MESSAGE_CHARS: Final = 500
T = TypeVar("T")


class StoreEdge:
    """A class whose public methods raise our own errors and no others, those of subclasses too.

    An engine may raise anything: what it fails at is tried again, and nothing is lost for it.
    """

    def __init_subclass__(cls) -> None:
        """Guard the methods of a subclass."""
        super().__init_subclass__()
        for name, method in vars(cls).copy().items():
            if isinstance(method, FunctionType) and not name.startswith("_"):
                setattr(cls, name, _guarded(method))


@contextmanager
def engine_faults(asked: str) -> Iterator[None]:
    """Raise what is not our own error as a `StoreError`."""
    try:
        yield
    except LatencytraceError:
        raise
    except Exception as error:
        raise StoreError(f"the store failed at `{asked}`: {_reason(error)}") from error


def _guarded(method: Callable[..., T]) -> Callable[..., T]:
    @wraps(method)
    def at_edge(*args: Any, **named: Any) -> T:
        with engine_faults(method.__name__):
            found = method(*args, **named)
        # What reads as it is iterated fails as it is iterated.
        return _each(method.__name__, found) if isinstance(found, Iterator) else found  # type: ignore[return-value]

    return at_edge


def _each(asked: str, found: Iterator[T]) -> Iterator[T]:
    with engine_faults(asked):
        yield from found


def _reason(error: Exception) -> str:
    """The error, and the line that raised it: reports have no traceback."""
    frame = extract_tb(error.__traceback__)[-1]
    return f"{error!r:.{_MESSAGE_CHARS}} ({frame.filename.rpartition('/')[2]}:{frame.lineno})"


Revisions = Mapping[tuple[str, str], int]  # (trace id, request span id) → highest revision


NONE_WITHDRAWN: Revisions = MappingProxyType({})
_WINDOW_S = 300  # the windows by which rows are copied
MOST_SHARES = 1 << 16  # that a window is cut into to be copied
ALL_DURATIONS = (DurationBand(),)
_NO_COPIES = "this store cannot be copied: use what its own engine has for that"


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


class Table(StrEnum):
    """A table of a store."""

    ARRIVALS = "span_arrivals"
    SPANS = "spans"
    REQUESTS = "requests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The rows of a table that arrived within a stretch of time, and are dropped together."""

    table: Table
    since_ns: int  # since the Unix epoch
    until_ns: int  # exclusive
    rows: int
    bytes: int  # on disk

    @property
    def began(self) -> str:
        """When the stretch began, as text."""
        return f"{datetime.fromtimestamp(self.since_ns / 1e9, UTC):%Y-%m-%dT%H:%MZ}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some rows of a table, few enough to be copied at once."""

    table: Table
    since_s: int  # since the Unix epoch: they arrived, or were written, from then
    until_s: int  # exclusive
    first_s: int  # they start in windows from this one
    last_s: int  # to this one
    share: int = 0  # of their traces, those of this share
    shares: int = 1
    rows: int = 0  # about

    @property
    def day(self) -> str:
        """The day on which they arrived or were written, of UTC."""
        return f"{datetime.fromtimestamp(self.since_s, UTC):%Y-%m-%d}"

    def halves(self) -> "tuple[Piece, Piece]":
        """Return the same rows in two pieces: by when they start, of one window by their traces.

        Raises:
            StoreError: All rows are of one trace.
        """
        rows = self.rows // 2, self.rows - self.rows // 2
        # An older version noted pieces that begin or end within a window.
        first_s = -(-self.first_s // _WINDOW_S) * _WINDOW_S
        last_s = self.last_s // _WINDOW_S * _WINDOW_S
        if first_s < last_s:
            windows = (last_s - first_s) // _WINDOW_S
            middle_s = first_s + windows // 2 * _WINDOW_S
            return (
                replace(self, first_s=first_s, last_s=middle_s, rows=rows[0]),
                replace(self, first_s=middle_s + _WINDOW_S, last_s=last_s, rows=rows[1]),
            )
        if self.shares >= MOST_SHARES:
            raise StoreError(
                f"one trace of {self.table} of {self.day} takes more memory than a copy may: "
                "drop that day, or use what the engine itself has for copies"
            )
        shares = 2 * self.shares
        return (
            replace(self, shares=shares, rows=rows[0]),
            replace(self, share=self.share + self.shares, shares=shares, rows=rows[1]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result of a write."""

    at_ns: int  # the moment it is written under
    withdrawn: int  # requests that stood before


class Questions(StoreEdge, ABC):
    """The questions about requests.

    Those methods that are not abstract go over the requests one by one: a store has its own
    where it knows a faster way.
    """

    @abstractmethod
    def written(self, trace_ids: Collection[str]) -> Sequence[Request]:
        """The requests of these traces, the highest revision of each."""

    @abstractmethod
    def of_service(self, service: str | None) -> Iterable[Request]:
        """Every request of a service, or of all, the highest revision of each."""

    def requests_of(self, trace_ids: Collection[str]) -> Sequence[Request]:
        """The requests of these traces, the highest revision of each."""
        return self.written(trace_ids)

    def request(self, trace_id: str, span_id: str | None) -> Request | None:
        """One request, its highest revision; no span id: the outermost of its trace."""
        found = [
            one
            for one in self.requests_of([trace_id])
            if (one.outermost if span_id is None else one.span_id == span_id)
        ]
        return min(found, key=lambda one: (one.start_ns, one.span_id), default=None)

    def requests(self, cohort: Cohort, order: Order, limit: int) -> Sequence[Request]:
        """Requests of a cohort, each with its segments; health routes only if named."""

        def place(one: Request) -> tuple[int, str, str]:
            first = one.duration_ns if order is Order.SLOWEST else one.start_ns
            return -first, one.trace_id, one.span_id

        return sorted(self._counted(cohort), key=place)[:limit]

    def trace_ids(self, cohort: Cohort, beginning: str, limit: int) -> Sequence[str]:
        """The first traces, in order of id, that begin so and have a request in a cohort."""
        found = {
            one.trace_id
            for one in self.of_service(cohort.service)
            if one.trace_id.startswith(beginning)
            and plain_answers.is_in(one, cohort)
            and plain_answers.has_attributes(one, cohort)
        }
        return sorted(found)[:limit]

    def count(self, cohort: Cohort) -> int:
        """Return the number of requests of a cohort that `requests` can list."""
        return len(self._counted(cohort))

    def ledgers(self, cohort: Cohort, table_format: TableFormat) -> bytes:
        """A row for each of them in order of start, a column for each stage.

        Those without stages are left out, here and below, unless their detail is named.
        The columns of stages are nanoseconds, 0 where it is absent; they add up to the
        duration. Unknown is empty in CSV.
        """
        found = self._with_stages(cohort)
        found.sort(key=lambda one: (one.start_ns, one.trace_id, one.span_id))
        if table_format is TableFormat.CSV:
            return plain_answers.csv_table(found)
        return plain_answers.parquet_table(found)

    def durations(self, cohort: Cohort) -> Durations:
        """How long each of them took, in no order."""
        found = self._with_stages(cohort)
        return Durations(
            ns=np.array([one.duration_ns for one in found], np.int64),
            weight=weights_of(np.array([one.weight for one in found], np.int64)),
        )

    def times(self, cohort: Cohort) -> RequestTimes:
        """Return the start and the end of each request that `requests` lists, in any detail."""
        found = self._counted(cohort)
        rows = [
            (one.start_ns, one.duration_ns, one.status is RequestStatus.OK, one.weight)
            for one in found
        ]
        return RequestTimes.of(np.array(rows, np.int64).reshape(-1, 4))

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
        found = self._with_stages(cohort)
        within = (
            one for one in found if any(plain_answers.is_within(one, band) for band in bands)
        )
        return RequestColumns.of(within, attributes=attributes)

    def stage_means(
        self, cohort: Cohort, bands: Sequence[DurationBand]
    ) -> Sequence[Mapping[Stage, float]]:
        """Mean time per stage of those in each of these bands, which may overlap.

        A stage of no time is left out; of a band without requests all are.
        """
        return [plain_answers.stage_means(self.cohort_columns(cohort, [one])) for one in bands]

    def breakdown(self, cohort: Cohort) -> Breakdown:
        """Time per stage over a cohort; health routes are counted apart.

        Where the cohort names a route, that route counts, health or not.
        """
        return plain_answers.breakdown(cohort, self.of_service(cohort.service))

    def breakdowns(self, cohort: Cohort, limit: int) -> RouteBreakdowns:
        """Time per stage of each route by itself, those first that took most time in all.

        Inner requests are included.
        """
        return plain_answers.breakdowns(cohort, self.of_service(cohort.service), limit)

    def overview(self, cohort: Cohort, column_ns: int, limit: int) -> Overview:
        """The routes by total time, longest first, inner requests included.

        The cohort names a `since`, where the first column of the timelines begins.
        """
        services = [cohort.service] if cohort.service else self.services()
        found = [
            one
            for service in services
            for one in self._with_stages(cohort.model_copy(update={"service": service}))
        ]
        return plain_answers.overview(found, cohort.since_ns or 0, column_ns, limit)

    def long_lived_routes(self, cohort: Cohort) -> Sequence[str]:
        """The routes of a cohort whose requests are connections that stay open."""
        requests = self._with_stages(cohort)
        found = plain_answers.overview(requests, 0, 1 << 63, len(requests))
        return sorted({one.route for one in found.routes if one.is_long_lived})

    def groups(self, cohort: Cohort, by: str, column_ns: int, limit: int) -> Groups:
        """Requests that a breakdown counts, by a label or an attribute.

        Each is in one part: of several values of an attribute its first counts, that of the
        request's own span before those of others. The cohort names a `since`, where the first
        column of the timelines begins.

        Args:
            by: One of `LABELS`, or the key of an attribute.
            column_ns: Length of a column of the timelines.
            limit: Values with a part of their own, the ones with most time in all.
        """
        found = self._with_stages(cohort)
        return plain_answers.groups(found, by, cohort.since_ns or 0, column_ns, limit)

    def versions(self, cohort: Cohort, *, inner: bool = False) -> Mapping[tuple[str, str], int]:
        """Services and their versions, and when the first request of each started.

        Args:
            cohort: Cohort of the requests to look at.
            inner: Without a service, inner requests are as well.
        """
        services = [cohort.service] if cohort.service or not inner else self.services()
        found = (self._counted(cohort.model_copy(update={"service": one})) for one in services)
        return plain_answers.versions(itertools.chain.from_iterable(found))

    def attribute_keys(self, cohort: Cohort) -> Mapping[str, int]:
        """Keys of attributes, and how many requests have each; the most frequent ones first."""
        return plain_answers.attribute_keys(self._with_stages(cohort))

    def heat_map(self, cohort: Cohort, column_ns: int) -> Sequence[HeatCell]:
        """Durations over time of what `requests` lists; the cohort names a `since`."""
        return plain_answers.heat_map(self._counted(cohort), cohort.since_ns or 0, column_ns)

    def stages_over_time(self, cohort: Cohort, column_ns: int) -> Sequence[StageColumn]:
        """Mean time per stage over time, of the requests that a breakdown counts.

        The cohort names a `since`, where the first column begins; those without requests are
        left out.
        """
        found = self._with_stages(cohort)
        return plain_answers.stages_over_time(found, cohort.since_ns or 0, column_ns)

    def services(self) -> Sequence[str]:
        """The services that have requests, in order of name."""
        return sorted({one.service for one in self.of_service(None)})

    def routes(self, service: str | None) -> Sequence[str]:
        """The routes that have requests, in order of name."""
        return sorted({one.route for one in self.of_service(service) if one.counts})

    def instances(self) -> Sequence[tuple[str, str]]:
        """Services and instances that have served requests, at least those of the last week."""
        served = (one for one in self.of_service(None) if not one.startup)
        return sorted({(one.service, one.instance) for one in served if one.instance is not None})

    def known_traces(self) -> Iterable[NDArray[np.uint64]]:
        """The ids of all traces that have a request, in pieces: (n, 2), high and low halves."""
        ids = "".join({one.trace_id for one in self.of_service(None)})
        yield np.frombuffer(bytes.fromhex(ids), ">u8").astype(np.uint64).reshape(-1, 2)

    def _with_stages(self, cohort: Cohort) -> list[Request]:
        return [one for one in self._counted(cohort) if plain_answers.has_stages(one, cohort)]

    def _counted(self, cohort: Cohort) -> list[Request]:
        return plain_answers.counted(cohort, self.of_service(cohort.service))


class Copies(StoreEdge):
    """A store's rows as they lie there, for backups and for moving to another engine."""

    def pieces(self) -> Sequence[Piece]:
        """Everything in pieces, the ledgers before the spans that they are made of.

        Where more is written meanwhile, the spans are to be listed once the ledgers are copied:
        no ledger is there without its spans then, and of spans without a ledger it is made anew.
        """
        raise StoreError(_NO_COPIES)

    def rows_of(self, piece: Piece) -> bytes:
        """The rows of a piece, for `take` of a store of the same tables; empty: none."""
        raise StoreError(_NO_COPIES)

    def count_of(self, piece: Piece) -> int:
        """How many rows of a piece this service has written."""
        raise StoreError(_NO_COPIES)

    def take(self, piece: Piece, rows: bytes) -> int:
        """Keep the rows of a piece as they are; how many these were."""
        raise StoreError(_NO_COPIES)

    def all_taken(self) -> None:
        """Have spans without their ledger attributed at the next start, and each request once."""
        raise StoreError(_NO_COPIES)


class Store(Questions, Copies):
    """Keeps `span_arrivals`, `requests` and `spans`.

    Every method blocks, may be called from any thread, and raises `StoreError`
    with what to do when the engine cannot do what was asked. Any other exception
    of a method becomes one.
    """

    @classmethod
    @abstractmethod
    def open(cls, folder: Path) -> Self:
        """Open a store, creating what is missing and setting aside what is torn.

        Raises:
            StoreInUseError: Another process owns the folder; the message names it.
        """

    @property
    def is_shared(self) -> bool:
        """Tell whether other services write to it, each the traces that reach it."""
        return False

    def rootless_lately(self) -> Collection[str]:
        """Traces of the last minutes of which this service stored no root; on a shared store."""
        return ()

    def elsewhere(self, trace_ids: Collection[str]) -> Collection[str]:
        """Those of the traces of which another service has stored spans."""
        return ()

    def hurry(self) -> None:
        """Let nothing take long from now on: the service ends."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the folder."""

    @abstractmethod
    def insert(self, blocks: Sequence[SpanBlock], age_ns: int | None = None) -> None:
        """Keep every span of blocks.

        When it returns, the spans survive the death of this process: as many rows were written
        as there are spans.

        Args:
            blocks: Blocks of spans, in the order in which they came.
            age_ns: Their ledgers are written next, and were made of these spans
                so long ago; None: there are none yet.

        Raises:
            PoisonedBlockError: The engine cannot read a block; nothing of them was kept.
            StoreError: Not all of it was kept, because the disk is full and the like.
        """

    @abstractmethod
    def keep(
        self, parts: Sequence[tuple[SpanBlock, NDArray[np.int64]]], age_ns: int | None = None
    ) -> None:
        """Keep these rows of blocks, so that they are found when other arrivals are gone.

        They may have been inserted before, all of a trace or some; once this returns, all of
        them have arrived.

        Args:
            age_ns: Time since their arrival, in ns.
        """

    def keep_noted(self) -> None:
        """Copy the spans of traces that `write` noted, while the arrivals are still there.

        A store that marks them when it writes has nothing left to do.
        """

    def roll_up(self) -> None:
        """Do some of what makes answers about many requests faster; called once a second.

        A store that has nothing to prepare does nothing.
        """

    @abstractmethod
    def arrived(self, trace_ids: Collection[str]) -> Mapping[str, tuple[Span, ...]]:
        """Every span that arrived for these traces; what came twice once, unless copies differ."""

    @abstractmethod
    def arrived_counts(self, trace_ids: Collection[str]) -> Mapping[str, int]:
        """How many spans arrived for these traces, as often as they came; 0 is not named."""

    @abstractmethod
    def kept_spans(self, trace_id: str) -> tuple[Span, ...]:
        """The spans of a trace, likewise, from `spans` or the arrivals; empty: not kept."""

    @abstractmethod
    def kept_counts(self, trace_ids: Collection[str]) -> Mapping[str, int]:
        """How many spans are in `spans` of these traces; none is not named."""

    def spans_of(self, trace_ids: Collection[str]) -> Mapping[str, tuple[Span, ...]]:
        """The spans of these traces, each once; a trace without any is absent."""
        found = {trace_id: self.kept_spans(trace_id) for trace_id in trace_ids}
        return {trace_id: spans for trace_id, spans in found.items() if spans}

    def spans_at(self, places: Collection[tuple[str, str]]) -> tuple[Span, ...]:
        """The spans at these places (trace id, span id), kept or arrived, each once."""
        trace_ids = {trace_id for trace_id, _ in places}
        arrived = self.arrived(trace_ids)
        found = {
            (span.trace_id, span.span_id): span
            for trace_id in trace_ids
            for span in (*arrived.get(trace_id, ()), *self.kept_spans(trace_id))
        }
        return tuple(found[place] for place in set(places) & found.keys())

    @abstractmethod
    def spans_of_id(self, span_id: str) -> tuple[Span, ...]:
        """The spans with this id, of any trace, kept or arrived, each once."""

    @abstractmethod
    def linking_to(self, span: Span) -> tuple[Span, ...]:
        """The spans with a link to this one, kept or arrived, each once.

        Those that began before it ended, and at most ten minutes before it began.
        """

    @abstractmethod
    def unassembled(self) -> Sequence[str]:
        """Traces with spans that arrived after the last request of theirs was written.

        They are assembled again after a crash.
        """

    @abstractmethod
    def without_ledger(self, since_ns: int, until_ns: int) -> Sequence[str]:
        """Traces whose root arrived in a stretch of time, and which have no request.

        Shared steps are none. The stretch lies in the last two hours.
        """

    @abstractmethod
    def write(
        self,
        tables: Sequence[LedgerTable],
        keep_spans_of: Collection[str],
        withdrawn: Revisions = NONE_WITHDRAWN,
        age_ns: int = 0,
        counted: Collection[tuple[str, str]] = (),
    ) -> Written:
        """Keep requests, and note traces whose arrived spans are to be copied to `spans`.

        The traces first: a crash between the two leaves them unassembled. They outlive this
        process, and their spans are read from the arrivals.

        Args:
            tables: Requests as columns, each of a higher revision than what was written of it
                before, or the very same as that. `each_request` makes objects of them.
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

    def written_ns(self, request: Request) -> int | None:
        """The moment that the last revision of a request was written under; None: not noted."""
        return None

    @abstractmethod
    def last_written_ns(self) -> int:
        """The latest moment that requests were written under; 0: none were."""

    @abstractmethod
    def uncounted(self, until_ns: int) -> Sequence[tuple[int, Request]]:
        """Requests written after a moment and not counted before, with when, in this order."""

    @abstractmethod
    def revisions(self, trace_ids: Collection[str]) -> Revisions:
        """The highest revision written of each request of these traces."""

    def damaged_parts(self) -> Sequence[DamagedPart]:
        """The pieces that were set aside, since the folder was opened or before."""
        return ()

    def partitions(self) -> Sequence[Partition]:
        """The partitions of all tables, the ones that receive rows included; none: all is kept."""
        return ()

    def drop(self, partition: Partition) -> None:
        """Drop the rows of a partition that receives none any more.

        Where the process dies half-way, some of them may be left: they are dropped later.
        """
        raise StoreError(f"this store has no partition {partition}")


def open_beside(url: str, folder: Path) -> Store:
    """Open a store on a server, of a service whose folder this process has locked already.

    Raises:
        PluginError: No store takes such an address.
    """
    name = url.partition("://")[0]
    opened = getattr(load_plugin(STORES, name), "open_beside", None)
    if opened is None:
        raise PluginError(f"store {name!r} cannot be opened beside another one")
    with engine_faults("open"):
        store: Store = opened(url, folder)
    return store


def open_store(engine: str, folder: Path) -> Store:
    """Open the store of an engine.

    Args:
        engine: The name of a plugin; or an address, whose scheme is one.

    Raises:
        PluginError: No such engine is installed.
        StoreInUseError: Another process owns the folder.
    """
    name, is_address, _ = engine.partition("://")
    opened = getattr(load_plugin(STORES, name), "open_at" if is_address else "open", None)
    if opened is None:
        raise PluginError(f"store {name!r} cannot be opened{' by an address' * bool(is_address)}")
    with engine_faults("open"):
        store: Store = opened(engine, folder) if is_address else opened(folder)
    return store
