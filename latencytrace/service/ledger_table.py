"""Requests with their ledgers as columns: the one form in which they go through the service.

The analysis makes tables, a store writes them, metrics and objectives count them. Callers
that need `Request` objects make them of a table (`requests`, `each_request`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Final, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns import reported
from latencytrace.analysis.columns.objects import FIRST_TOKEN_OF, requests_of
from latencytrace.analysis.columns.request_table import RequestTable, Root, Words
from latencytrace.model import Ledger, Request
from latencytrace.model.request import ledger_of
from latencytrace.model.stage import STAGES

Key = tuple[str, str]  # of a request: trace id, span id

_U64: Final = (1 << 64) - 1
_MORE: Final = 0x80  # of a byte of a length: another follows
_LONGEST_TEXT: Final = (1 << 14) - 1
_LONGEST_NS: Final = (1 << 63) - 1
_STAGE_NUMBERS: Final = {stage: number for number, stage in enumerate(STAGES)}
_FIRST_TOKEN_CODES: Final = {of: code for code, of in FIRST_TOKEN_OF.items()}
_KNOWN: Final[dict[int, Callable[[Request], int | None]]] = {
    reported.INPUT: lambda one: one.input_tokens,
    reported.CACHED: lambda one: one.cached_input_tokens,
    reported.OUTPUT: lambda one: one.output_tokens,
    reported.BATCH_SIZE: lambda one: one.batch_size,
    reported.FIRST_TOKEN: lambda one: one.time_to_first_token_ns,
    reported.FIRST_TOKEN_OF: lambda one: (
        None if (of := one.time_to_first_token_of) is None else _FIRST_TOKEN_CODES[of]
    ),
    reported.MODELS_FIRST_TOKEN: lambda one: one.model_time_to_first_token_ns,
    reported.PER_TOKEN: lambda one: one.time_per_output_token_ns,
    reported.QUEUE_DEPTH: lambda one: one.queue_depth,
    reported.CONCURRENCY: lambda one: one.concurrency,
    reported.REQUEST_PREEMPTIONS: lambda one: one.preemptions,
    reported.COLD_START: lambda one: None if one.cold_start is None else int(one.cold_start),
}
_Column = NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LedgerTable(RequestTable):
    """`r` requests, each at some revision.

    Times are 64 bits that wrap as those of spans do: one beyond 292 years is below 0.
    """

    revision: NDArray[np.uint32]  # (r,): 1 for the first

    @classmethod
    def new(cls, table: RequestTable) -> Self:
        """Requests of none of which anything was written before."""
        columns = {one.name: getattr(table, one.name) for one in fields(RequestTable)}
        return cls(**columns, revision=np.ones(len(table), np.uint32))

    @classmethod
    def of(cls, requests: Iterable[Request]) -> Self:
        """Make a table of objects.

        Raises:
            OverflowError: A number of a request is none that a column holds.
        """
        found = list(requests)
        known = [_known(one) for one in found]
        attributes = [pair for one in found for pair in one.attributes]
        texts = [_with_length(value) for _, value in attributes]
        segments = [segment for one in found for segment in one.segments]
        roots, root = _coded(map(_root, found))
        metrics, metric = _coded(one.metric_attributes for one in found)
        return cls(
            trace_ids=[one.trace_id for one in found],
            span_id=_ids(one.span_id for one in found),
            outermost=np.array([one.outermost for one in found], np.bool_),
            startup=np.array([one.startup for one in found], np.bool_),
            start_ns=_times_ns(one.start_ns & _U64 for one in found),
            duration_ns=_times_ns(one.duration_ns for one in found),
            root=root,
            roots=roots,
            model=_words(one.model for one in found),
            finish_reason=_words(one.finish_reason for one in found),
            metric=metric,
            metrics=metrics,
            known=np.array(known, np.int64).reshape(-1, reported.KNOWN),
            attribute_key=_words(key for key, _ in attributes),
            attribute_texts=np.frombuffer(b"".join(texts), np.uint8),
            attribute_text_first=_begins(map(len, texts)),
            attribute_first=_begins(len(one.attributes) for one in found),
            attributes_left_out=np.array([one.attributes_left_out for one in found], np.int64),
            repairs={place: one.repairs for place, one in enumerate(found) if one.repairs},
            segment_first=_begins(len(one.segments) for one in found),
            segment_end_ns=_times_ns(one.end_ns for one in segments),
            segment_stage=np.array([_STAGE_NUMBERS[one.stage] for one in segments], np.int64),
            segment_span_id=_ids(one.span_id for one in segments),
            segment_name=_words(one.name for one in segments),
            ledger=_ledgers(one.ledger for one in found),
            after=_ledgers(one.after for one in found)
            if any(one.after for one in found)
            else None,
            weight=_weights(found),
            revision=np.array([one.revision for one in found], np.uint32),
        )

    @property
    def keys(self) -> list[Key]:
        """The key of each request."""
        span_ids = [f"{span_id:016x}" for span_id in self.span_id.tolist()]
        return list(zip(self.trace_ids, span_ids, strict=True))

    @property
    def weights(self) -> _Column:
        """(r,): how many requests each stands for."""
        return np.ones(len(self), np.int64) if self.weight is None else self.weight

    @property
    def is_revised(self) -> bool:
        """Return whether one of them was written before."""
        return bool((self.revision > 1).any())

    def requests(self) -> list[Request]:
        """Make an object of each request, in order."""
        before = (self.revision - np.uint32(1)).tolist() if self.is_revised else None
        revisions = None if before is None else dict(zip(self.keys, before, strict=True))
        found = requests_of(self, revisions)
        if (self.start_ns < 0).any() or (self.duration_ns < 0).any():
            found = list(map(_unwrapped, found))
        return found

    def taken(self, places: _Column) -> "LedgerTable":
        """Some of these requests, in the order of their places."""
        some = cast(LedgerTable, RequestTable.taken(self, places))
        return replace(some, revision=self.revision[places])

    def countable(self) -> "LedgerTable":
        """The same, of which no time is below 0: of one beyond 292 years, these."""
        wrapped = (self.start_ns < 0) | (self.duration_ns < 0) | (self.ledger < 0).any(axis=1)
        if not wrapped.any():
            return self
        return replace(
            self,
            start_ns=_within(self.start_ns),
            duration_ns=_within(self.duration_ns),
            ledger=_within(self.ledger),
            after=None if self.after is None else _within(self.after),
        )

    @property
    def end_ns(self) -> _Column:
        """(r,): when each ended; `countable` first."""
        ends_ns: _Column = np.where(
            self.duration_ns > _LONGEST_NS // 2 - self.start_ns // 2,
            _LONGEST_NS // 2,
            self.start_ns + self.duration_ns,
        )
        return ends_ns


def each_request(tables: Iterable[LedgerTable]) -> Iterator[Request]:
    """Make objects of the requests of tables, for a store that keeps those."""
    return chain.from_iterable(table.requests() for table in tables)


def _unwrapped(request: Request) -> Request:
    """A request with times of spans again."""
    segments = tuple(
        replace(one, start_ns=one.start_ns & _U64, end_ns=one.end_ns & _U64)
        for one in request.segments
    )
    return replace(
        request,
        start_ns=request.start_ns & _U64,
        duration_ns=request.duration_ns & _U64,
        segments=segments,
        ledger=ledger_of(segments),
    )


def _root(request: Request) -> Root:
    return Root(
        request.service, request.instance, request.version, request.route, request.health,
        request.status, request.detail,
    )  # fmt: skip


def _known(request: Request) -> list[int]:
    known = [reported.UNKNOWN] * reported.KNOWN
    for column, tell in _KNOWN.items():
        said = tell(request)
        if said is not None:
            known[column] = said
    return known


def _coded(values: Iterable[T]) -> tuple[list[T], _Column]:
    """The distinct ones, and of each value its place among them."""
    places: dict[T, int] = {}
    codes = [places.setdefault(one, len(places)) for one in values]
    return list(places), np.array(codes, np.int64)


def _words(texts: Iterable[str | None]) -> Words:
    values, codes = _coded(texts)
    return Words(codes, values)


def _with_length(text: str) -> bytes:
    """Return a text after its length in bytes, seven bits a byte.

    Raises:
        OverflowError: It is longer than any that a request keeps.
    """
    written = text.encode("utf-8", "surrogateescape")
    length = len(written)
    if length > _LONGEST_TEXT:
        raise OverflowError(f"an attribute of {length} bytes")
    is_short = length < _MORE
    return bytes((length,) if is_short else (length % _MORE | _MORE, length // _MORE)) + written


def _begins(counts: Iterable[int]) -> _Column:
    """Where each one's begin, and the last one's end."""
    return np.cumsum([0, *counts], dtype=np.int64)


def _ids(span_ids: Iterable[str]) -> NDArray[np.uint64]:
    return np.array([int(one, 16) for one in span_ids], np.uint64)


def _times_ns(times_ns: Iterable[int]) -> _Column:
    return np.array(list(times_ns), np.uint64).view(np.int64)


def _ledgers(ledgers: Iterable[Ledger]) -> _Column:
    found = list(ledgers)
    columns = np.zeros((len(found), len(STAGES)), np.uint64)
    for place, ledger in enumerate(found):
        for stage, length_ns in ledger.items():
            columns[place, _STAGE_NUMBERS[stage]] = length_ns
    return columns.view(np.int64)


def _weights(requests: Sequence[Request]) -> _Column | None:
    if all(one.weight == 1 for one in requests):
        return None
    return np.array([one.weight for one in requests], np.uint32).astype(np.int64)


def _within(times_ns: _Column) -> _Column:
    return np.where(times_ns < 0, _LONGEST_NS, times_ns)
