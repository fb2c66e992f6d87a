"""Requests of a cohort as columns of numbers, for statistics over many of them at once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.request import Request
from latencytrace.model.stage import Stage

STAGES = tuple(Stage)  # the columns of `RequestColumns.stages_ns`, in this order
UNKNOWN = -1  # the number of a word that is not known
_SIGN = 1 << 63

Times = NDArray[np.int64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationBand:
    """Requests that took so long, ends included, and the share of them that is read.

    Which ones a share holds depends on their trace ids alone: the same each time.
    """

    at_least_ns: int = 0
    at_most_ns: int = _SIGN - 1
    share_ratio: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """The durations of requests, in no order."""

    ns: Times
    weight: Times | None = None  # requests that each stands for; None: itself

    def __len__(self) -> int:
        """Return how many were recorded."""
        return len(self.ns)

    @property
    def requests(self) -> int:
        """How many there were."""
        return len(self.ns) if self.weight is None else int(self.weight.sum())

    def without(self, some: "Durations") -> "Durations":
        """Return these but for some of them: for each of those, one that is as long."""
        order = np.argsort(self.ns, kind="stable")
        mine, theirs = self.ns[order], np.sort(some.ns)
        alike = np.arange(len(theirs)) - np.searchsorted(theirs, theirs)  # before it
        place = np.searchsorted(mine, theirs) + alike
        kept = np.delete(order, place[place < np.searchsorted(mine, theirs, side="right")])
        return Durations(
            ns=self.ns[kept], weight=None if self.weight is None else self.weight[kept]
        )


def weights_of(weight: Times) -> Times | None:
    """Weights of requests; None: none stands for more than itself."""
    return weight if bool((weight != 1).any()) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNumbers:
    """A column of numbers, some of which are unknown."""

    value: NDArray[np.int64]  # 0 where it is unknown
    known: NDArray[np.bool_]

    @classmethod
    def of(cls, numbers: Sequence[int | bool | None]) -> Self:
        return cls(
            value=np.array([number or 0 for number in numbers], np.int64),
            known=np.array([number is not None for number in numbers], np.bool_),
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Lay columns one below the other."""
        return cls(
            value=np.concatenate([part.value for part in parts]),
            known=np.concatenate([part.known for part in parts]),
        )

    def taken(self, rows: Rows) -> Self:
        return replace(self, value=self.value[rows], known=self.known[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A column of words, few of them different: each row has the number of its word."""

    names: Sequence[str]
    number: NDArray[np.int32]  # its place in `names`; UNKNOWN: none is known

    @classmethod
    def of(cls, words: Iterable[str | None]) -> Self:
        places: dict[str, int] = {}
        numbers = [
            UNKNOWN if word is None else places.setdefault(word, len(places)) for word in words
        ]
        return cls(names=tuple(places), number=np.array(numbers, np.int32))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Lay columns one below the other."""
        places: dict[str, int] = {}
        numbers = []
        for part in parts:
            new = [places.setdefault(name, len(places)) for name in part.names]
            numbers.append(np.array([*new, UNKNOWN], np.int32)[part.number])  # that one is last
        return cls(names=tuple(places), number=np.concatenate(numbers))

    def taken(self, rows: Rows) -> Self:
        return replace(self, number=self.number[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeColumns:
    """The `m` attributes that are kept with requests."""

    row: Rows  # (m,): the request of each, in rising order
    key: Words  # (m,)
    value: Words  # (m,)

    @classmethod
    def joined(cls, parts: Sequence[Self], requests: Sequence[int]) -> Self:
        """Lay columns of so many requests each one below the other."""
        first = np.cumsum([0, *requests])
        return cls(
            row=np.concatenate([one.row + at for one, at in zip(parts, first, strict=False)]),
            key=Words.joined([one.key for one in parts]),
            value=Words.joined([one.value for one in parts]),
        )

    def taken(self, rows: Rows, requests: int) -> Self:
        """Return those of some of so many requests, none of which is named twice."""
        place = np.full(requests, -1)
        place[rows] = np.arange(len(rows))
        row = place[self.row]
        order = np.argsort(row, kind="stable")
        order = order[np.count_nonzero(row < 0) :]
        return replace(
            self, row=row[order], key=self.key.taken(order), value=self.value.taken(order)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestColumns:
    """The columns of `n` requests, in order of start; `stages_ns` adds up to `duration_ns`."""

    trace_id: NDArray[np.void]  # (n,), of 16 bytes each
    start_ns: Times  # since the Unix epoch
    duration_ns: Times
    stages_ns: Times  # (n, len(STAGES)): its ledger, 0 where a stage is absent
    after_ns: KnownNumbers  # how long each went on after its end
    time_to_first_token_ns: KnownNumbers
    time_per_output_token_ns: KnownNumbers
    input_tokens: KnownNumbers
    cached_input_tokens: KnownNumbers
    output_tokens: KnownNumbers
    batch_size: KnownNumbers
    queue_depth: KnownNumbers
    concurrency: KnownNumbers
    preemptions: KnownNumbers
    cold_start: KnownNumbers  # 1: something was loaded for it
    service: Words
    instance: Words
    version: Words
    route: Words
    model: Words
    status: Words
    finish_reason: Words
    weight: Times | None = None  # requests that each stands for; None: itself
    attributes: AttributeColumns | None = None  # None: they were not asked for
    # What engines of its model reported when it began, by name; empty: nothing is known.
    engine: Mapping[str, KnownNumbers] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of requests that were recorded."""
        return len(self.start_ns)

    def trace_id_of(self, row: int) -> str:
        return bytes(self.trace_id[row]).hex()

    def numbers(self, name: str) -> KnownNumbers:
        found: KnownNumbers = self.engine.get(name) or getattr(self, name)
        return found

    def weights(self) -> Times:
        """Return how many requests each stands for."""
        return np.ones(len(self), np.int64) if self.weight is None else self.weight

    def joined(self, other: Self) -> Self:
        """Return these requests and others, in order of start, without what engines reported."""
        parts = (self, other)
        order = np.argsort(np.concatenate([one.start_ns for one in parts]), kind="stable")
        kept = [one.attributes for one in parts if one.attributes is not None]
        attributes = AttributeColumns.joined(kept, list(map(len, parts))) if kept[1:] else None
        named = {name: [getattr(one, name) for one in parts] for name in _PLAIN}
        columns: dict[str, Any] = {name: np.concatenate(each) for name, each in named.items()}
        for name in (*NUMBERS, *WORDS):
            each = [getattr(one, name) for one in parts]
            columns[name] = type(each[0]).joined(each)
        weight = weights_of(np.concatenate([one.weights() for one in parts]))
        found = replace(self, **columns, weight=weight, attributes=attributes, engine={})
        return found.taken(order, attributes=True)

    def taken(self, rows: Rows, *, attributes: bool = False) -> Self:
        """Return some of the requests, in order of start.

        Args:
            rows: Each of them once, if their attributes are asked for.
        """
        kept = self.attributes if attributes else None
        return replace(
            self,
            **{name: getattr(self, name)[rows] for name in _PLAIN},
            **{name: getattr(self, name).taken(rows) for name in (*NUMBERS, *WORDS)},
            weight=None if self.weight is None else weights_of(self.weight[rows]),
            attributes=kept.taken(rows, len(self)) if kept else None,
            engine={name: one.taken(rows) for name, one in self.engine.items()},
        )

    @classmethod
    def of(cls, requests: Iterable[Request], *, attributes: bool = False) -> Self:
        """Lay requests out.

        Args:
            requests: In any order.
            attributes: Whether their attributes are laid out too.
        """
        rows = sorted(requests, key=lambda one: one.start_ns)
        named: dict[str, Any] = {
            name: KnownNumbers.of([getattr(one, name) for one in rows]) for name in NUMBERS
        }
        named |= {name: Words.of(getattr(one, name) for one in rows) for name in WORDS}
        return cls(
            trace_id=np.frombuffer(b"".join(bytes.fromhex(one.trace_id) for one in rows), "V16"),
            start_ns=np.array([one.start_ns for one in rows], np.uint64).astype(np.int64),
            duration_ns=np.array([one.duration_ns for one in rows], np.int64),
            stages_ns=np.array(
                [[one.ledger.get(stage, 0) for stage in STAGES] for one in rows], np.int64
            ).reshape(-1, len(STAGES)),
            **named,
            weight=weights_of(np.array([one.weight for one in rows], np.int64)),
            attributes=_attributes(rows) if attributes else None,
        )


Beside = Callable[[RequestColumns], RequestColumns]
"""Adds what engines reported when requests began."""


def as_they_are(columns: RequestColumns) -> RequestColumns:
    """Return requests of which no engine reported anything."""
    return columns


NUMBERS = (
    "after_ns", "time_to_first_token_ns", "time_per_output_token_ns", "input_tokens",
    "cached_input_tokens", "output_tokens", "batch_size", "queue_depth", "concurrency",
    "preemptions", "cold_start",
)  # fmt: skip
_PLAIN = ("trace_id", "start_ns", "duration_ns", "stages_ns")
WORDS = ("service", "instance", "version", "route", "model", "status", "finish_reason")


def _attributes(requests: Sequence[Request]) -> AttributeColumns:
    pairs = [pair for one in requests for pair in one.attributes]
    counts = [len(one.attributes) for one in requests]
    return AttributeColumns(
        row=np.repeat(np.arange(len(requests)), counts),
        key=Words.of(key for key, _ in pairs),
        value=Words.of(value for _, value in pairs),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """The times of `n` requests, in order of start."""

    start_ns: Times  # since the Unix epoch
    duration_ns: Times
    served: NDArray[np.bool_]  # answered with success
    weight: Times | None = None  # requests that each stands for; None: itself

    @classmethod
    def of(cls, rows: Times) -> "RequestTimes":
        """Lay out a row for each: start, duration, whether it was served, and its weight."""
        start_ns, duration_ns, served, weight = rows[np.argsort(rows[:, 0], kind="stable")].T
        return cls(
            start_ns=start_ns,
            duration_ns=duration_ns,
            served=served.astype(np.bool_),
            weight=weights_of(weight),
        )

    def __len__(self) -> int:
        return len(self.start_ns)
