"""The contract of an inference engine's table: what its spans, attributes and events mean."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from latencytrace.model import Interval, Span, Stage


class Asked(NamedTuple):
    """How a rule knows a text. A text that it knows in none of these ways is as good as another.

    Rules may take a text in lower case first.
    """

    words: frozenset[str] = frozenset()  # the whole text
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()  # anywhere in a name; such a name is read as a whole

    @classmethod
    def all_of(cls, asked: Iterable[Self]) -> Self:
        """Join the texts that several rules ask for."""
        every = list(asked)
        return cls(
            frozenset(word for one in every for word in one.words),
            tuple(dict.fromkeys(start for one in every for start in one.starts)),
            tuple(dict.fromkeys(end for one in every for end in one.ends)),
            tuple(dict.fromkeys(part for one in every for part in one.parts)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Times inside a span that it reports, beyond its own start and end."""

    intervals: tuple[Interval, ...] = ()  # within the span, in order of time
    faults: tuple[str, ...] = ()  # what it reported and cannot be


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Tokens that a span reports in words of its own; None: nothing."""

    first_token_ns: int | None = None  # after the start of the span
    decode_ns: int | None = None  # from the first token to the last
    model: str | None = None
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None
    batch_size: int | None = None


NOTHING_TOLD = Times()
NOTHING_GENERATED = Generation()


def by_scope(span: Span) -> bool:
    return bool(span.scope)


def _none(_: Span) -> bool:
    return False


def _no_stage(_: Span) -> Stage | None:
    return None


def _no_times(_: Span, __: Sequence[Span]) -> Times:
    return NOTHING_TOLD


def _no_generation(_: Span) -> Generation:
    return NOTHING_GENERATED


def _own_name(span: Span) -> str:
    return span.name


def _as_sent(span: Span) -> Span:
    return span


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Rules to read the spans of one engine, or of an instrumentation with words of its own.

    A new one is a file in `analysis/engines` and a line in `analysis.trace.known_engines`.
    """

    name: str
    scopes: tuple[str, ...]  # how the instrumentation scopes of its spans begin
    knows: Callable[[Span], bool] = by_scope  # of these, and of those without a scope: its own
    stages: Mapping[str, Stage] = field(default_factory=dict)  # by the name of the span
    stage: Callable[[Span], Stage | None] = _no_stage  # of spans of other names
    ran: Callable[[Span], Span] = _as_sent  # with the start and end that it truly had
    times: Callable[[Span, Sequence[Span]], Times] = _no_times  # given its children, too
    generation: Callable[[Span], Generation] = _no_generation
    # The attributes that these two read; None: any span may tell. A span with none of them and no
    # event tells nothing.
    reported_in: frozenset[str] | None = None
    title: Callable[[Span], str] = _own_name  # its name without what differs by request
    # Spans that its requests begin with though they are not marked as a server's.
    entry: Callable[[Span], bool] = _none
    # The part of a request that only prefills: another part tells the caller's tokens.
    only_prefills: Callable[[Span], bool] = _none
    # Parts of the span above, maybe very many: they share its line in the ledger.
    steps: frozenset[str] = frozenset()
    # How the names of spans begin that end once they have handed the request over: what
    # they started goes on below the span above.
    hands_over: tuple[str, ...] = ()
    # Spans that outlive the step of the framework that they are started in.
    outlives: Callable[[Span], bool] = _none
    # Its spans are made by callbacks: what runs inside them is hung beside them.
    never_current: bool = False
    # The texts that its functions ask spans for.
    asks: Asked = field(default_factory=Asked)

    @property
    def asked(self) -> Asked:
        """Return all texts that its rules ask spans for."""
        mine = Asked(self.asks.words | self.steps | self.stages.keys(), self.scopes)
        return Asked.all_of((mine, self.asks, Asked(starts=self.hands_over)))

    def may_tell_times(self, span: Span) -> bool:
        """Return whether a span may tell of times inside it."""
        return self.times is not _no_times and self._may_tell(span)

    def may_tell_tokens(self, span: Span) -> bool:
        """Return whether a span may tell of the tokens made in words of its engine's own."""
        return self.generation is not _no_generation and self._may_tell(span)

    def _may_tell(self, span: Span) -> bool:
        keys = self.reported_in
        return keys is None or bool(span.events) or not keys.isdisjoint(span.attributes)


def json_of(span: Span, key: str) -> object:
    """The value of an attribute that is JSON; None: it is none."""
    text = span.attributes.get(key)
    if not isinstance(text, str):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def count_of(counts: Mapping[str, object], *keys: str) -> int | None:
    """The first number of some keys that is a count."""
    found = map(counts.get, keys)
    return next((one for one in found if type(one) is int and one >= 0), None)


def text_of(texts: Mapping[str, object], *keys: str) -> str | None:
    """The first text of some keys that is not empty."""
    found = map(texts.get, keys)
    return next((one for one in found if isinstance(one, str) and one), None)
