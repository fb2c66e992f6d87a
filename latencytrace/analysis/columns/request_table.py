"""Requests with their ledgers as columns: a row of the store, or a count, needs no object.

The spans that they were made of can be let go of meanwhile. `objects` makes `Request` objects
of them where some are needed; tests hold the two equal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.trace.is_request import LOAD_ROUTE
from latencytrace.model import MetricAttributes, Repair, RequestStatus, Stage
from latencytrace.model.detail import TraceDetail
from latencytrace.model.stage import STAGES

_Column = NDArray[np.int64]
_Flags = NDArray[np.bool_]

_MORE: Final = 0x80  # of a byte of a length: another follows; no text takes a third
_LOAD: Final = STAGES.index(Stage.LOAD)


class Root(NamedTuple):
    """The part of a request that its own span decides, and that many have in common."""

    service: str
    instance: str | None
    version: str | None
    route: str
    health: bool
    status: RequestStatus
    detail: TraceDetail = TraceDetail.FULL
    tells_weight: bool = False  # its attributes do, maybe


class Words(NamedTuple):
    """Texts that come again and again, or None."""

    codes: _Column  # of each its place among the values
    values: Sequence[str | None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestTable:
    """`r` requests with `s` segments and `a` attributes, none of them written before."""

    trace_ids: Sequence[str]  # (r,)
    span_id: NDArray[np.uint64]  # (r,)
    outermost: _Flags  # (r,)
    startup: _Flags  # (r,)
    start_ns: _Column  # (r,)
    duration_ns: _Column  # (r,)
    root: _Column  # (r,): of each its place among the roots
    roots: Sequence[Root]
    model: Words  # (r,)
    finish_reason: Words  # (r,)
    metric: _Column  # (r,): likewise
    metrics: Sequence[MetricAttributes]
    known: (
        _Column  # (r, `reported.KNOWN`): tokens and what it met; the spans there say nothing here
    )
    attribute_first: _Column  # (r + 1,): where each one's begin
    attribute_key: Words  # (a,)
    attribute_texts: NDArray[np.uint8]  # their values, each after its length (7 bits a byte)
    attribute_text_first: _Column  # (a + 1,): where each one's begins
    attributes_left_out: _Column  # (r,)
    repairs: Mapping[int, tuple[Repair, ...]]  # by place, of requests that have any
    segment_first: _Column  # (r + 1,): where each one's begin
    segment_end_ns: _Column  # (s,): each begins where the one before it ends
    segment_stage: _Column  # (s,)
    segment_span_id: NDArray[np.uint64]  # (s,)
    segment_name: Words  # (s,)
    ledger: _Column  # (r, stages): ns
    after: _Column | None = None  # (r, stages): ns after their ends; None: no request went on
    weight: _Column | None = None  # (r,): how many requests each stands for; None: itself

    def __len__(self) -> int:
        return len(self.trace_ids)

    @property
    def counts(self) -> _Flags:
        """(r,): whether breakdowns, metrics and objectives count it."""
        health = np.array([root.health for root in self.roots], np.bool_)
        counts: _Flags = ~(health[self.root] | self.startup)
        return counts

    @property
    def after_ns(self) -> _Column:
        """(r,): how long each went on after its end; 0: it did not."""
        if self.after is None:
            return np.zeros(len(self), np.int64)
        after_ns: _Column = self.after.sum(axis=1)
        return after_ns

    def attributes(self, place: int) -> tuple[tuple[str, str], ...]:
        first, beyond = self.attribute_first[place : place + 2].tolist()
        begins = self.attribute_text_first[first : beyond + 1].tolist()
        texts = self.attribute_texts[begins[0] : begins[-1]].tobytes()
        values = [texts[at - begins[0] : to - begins[0]] for at, to in pairwise(begins)]
        keys, names = self.attribute_key.codes[first:beyond].tolist(), self.attribute_key.values
        return tuple(
            (names[key] or "", value[1 + (value[0] >= _MORE) :].decode())
            for key, value in zip(keys, values, strict=True)
        )

    def as_load(self, places: Sequence[int]) -> Self:
        """These requests as the load of their process (see `analysis.trace.is_request`)."""
        if not places:
            return self
        startup, ledger, root = self.startup.copy(), self.ledger.copy(), self.root.copy()
        stage, roots = self.segment_stage.copy(), list(self.roots)
        for place in places:
            startup[place] = True
            ledger[place] = 0
            ledger[place, _LOAD] = self.duration_ns[place]
            stage[self.segment_first[place] : self.segment_first[place + 1]] = _LOAD
            root[place] = len(roots)
            roots.append(self.roots[self.root[place]]._replace(route=LOAD_ROUTE))
        return replace(
            self, startup=startup, ledger=ledger, root=root, roots=roots, segment_stage=stage
        )

    def taken(self, places: _Column) -> "RequestTable":
        """Some of these requests, in the order of their places."""
        attributes, attribute_first = ranges_of(self.attribute_first, places)
        text_bytes, text_first = ranges_of(self.attribute_text_first, attributes)
        segments, segment_first = ranges_of(self.segment_first, places)
        return replace(
            self,
            trace_ids=[self.trace_ids[place] for place in places.tolist()],
            span_id=self.span_id[places],
            outermost=self.outermost[places],
            startup=self.startup[places],
            start_ns=self.start_ns[places],
            duration_ns=self.duration_ns[places],
            root=self.root[places],
            model=Words(self.model.codes[places], self.model.values),
            finish_reason=Words(self.finish_reason.codes[places], self.finish_reason.values),
            metric=self.metric[places],
            known=self.known[places],
            attribute_first=attribute_first,
            attribute_key=Words(self.attribute_key.codes[attributes], self.attribute_key.values),
            attribute_texts=self.attribute_texts[text_bytes],
            attribute_text_first=text_first,
            attributes_left_out=self.attributes_left_out[places],
            repairs={
                at: self.repairs[place]
                for at, place in enumerate(places.tolist())
                if place in self.repairs
            },
            segment_first=segment_first,
            segment_end_ns=self.segment_end_ns[segments],
            segment_stage=self.segment_stage[segments],
            segment_span_id=self.segment_span_id[segments],
            segment_name=Words(self.segment_name.codes[segments], self.segment_name.values),
            ledger=self.ledger[places],
            after=None if self.after is None else self.after[places],
            weight=None if self.weight is None else self.weight[places],
        )


def by_appearance(codes: _Column, most: int) -> tuple[_Column, _Column]:
    """Number codes anew, from 0 on as they appear.

    Args:
        codes: Numbers from 0 to `most` - 1.
        most: Number of different codes.

    Returns:
        The distinct ones in order; and of each code its place among these.
    """
    first = np.full(most, len(codes), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of a code that comes twice the last
    present = np.flatnonzero(first < len(codes))
    distinct = present[np.argsort(first[present], kind="stable")]
    places = np.zeros(most, np.int64)
    places[distinct] = np.arange(len(distinct))
    return distinct, places[codes]


def ranges_of(first: _Column, places: _Column) -> tuple[_Column, _Column]:
    """The numbers between each place's first one and the next; and where those begin anew."""
    counts = np.diff(first)[places]
    begins = np.concatenate(([0], np.cumsum(counts)))
    return np.arange(begins[-1]) + np.repeat(first[places] - begins[:-1], counts), begins
