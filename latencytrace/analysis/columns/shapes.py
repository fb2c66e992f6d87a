"""Shapes of spans: the part that rules decide by, small in number, whatever senders send.

Two spans of one ruled part have the same facts (see `analysis.columns.facts`): of each text
there is left what a rule may know of it, of each number whether it is a status, of each attribute
that no rule asks for nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from latencytrace.analysis.calls import retries
from latencytrace.analysis.columns.keys import RULED, THERE
from latencytrace.analysis.dialects.engine import Asked
from latencytrace.analysis.ledger.circumstances import OURS, PUT_BACK
from latencytrace.analysis.tokens.counts import FIRST_TOKEN_EVENTS
from latencytrace.analysis.trace import asgi_messages, is_request, stage_of
from latencytrace.analysis.trace.known_engines import ENGINES
from latencytrace.analysis.trace.stage_of import CHROMADB_SCOPE
from latencytrace.model import Attributes, AttributeValue, Event, Link, Span

ASKED: Final = Asked.all_of(
    (
        *(engine.asked for engine in ENGINES),
        *(rules.ASKED for rules in (asgi_messages, is_request, retries, stage_of)),
        Asked(words=frozenset({OURS})),
    )
)
"""All texts that any rule asks for, the longest first."""
STARTS: Final = sorted(ASKED.starts, key=len, reverse=True)
ENDS: Final = sorted(ASKED.ends, key=len, reverse=True)
MOST_SHAPES: Final = 16_384
NO_SHAPE: Final = -1
MOST_STATUSES: Final = 1_000  # numbers below it are read as they are
MOST_EVENTS: Final = 64  # of a span, that tell of being put back; with more it has no ruled part
ANY: Final = "\0"  # in the place of what no rule knows
_IDS: Final = "0" * 32
_LOWER: Final = frozenset(word.lower() for word in ASKED.words)
_KELVIN: Final = "\u212a"  # the one sign beyond ASCII that is a letter of ASCII in lower case


def ruled(span: Span) -> Span:
    """A span of the same ruled part that says nothing else: equal for all spans of it."""
    name = span.name if span.scope == CHROMADB_SCOPE else ruled_name(span.name)
    return Span(
        trace_id=_IDS,
        span_id=_IDS[:16],
        parent_id=None,
        name=name,
        kind=span.kind,
        service="",
        scope=ruled_text(span.scope),
        start_ns=0,
        end_ns=0,
        status=span.status,
        attributes=_ruled_attributes(span.attributes),
        events=tuple(_ruled_events(span.events)),
        links=(Link(trace_id=_IDS, span_id=_IDS[:16]),) if span.links else (),
    )


def ruled_name(name: str) -> str:
    """Return the part of a name that rules may know."""
    return name if any(part in name for part in ASKED.parts) else ruled_text(name)


def ruled_text(text: str) -> str:
    """Return the part of a text that rules may know: all of it, or how it begins and ends."""
    if not text or _KELVIN in text:
        return text
    lower = text.lower()
    if lower in _LOWER:
        return text
    start = next((len(one) for one in STARTS if lower.startswith(one.lower())), 0)
    end = next((len(one) for one in ENDS if lower.endswith(one.lower())), 0)
    return text[:start] + ANY + text[len(text) - end :]


def _ruled_attributes(attributes: Attributes) -> Attributes:
    asked = sorted(key for key in attributes if key in RULED or key in THERE)
    return {
        key: ruled_value(attributes[key]) if key in RULED else _kind_of(attributes[key])
        for key in asked
    }


def ruled_value(value: AttributeValue) -> AttributeValue:
    """Return the part of a value that rules may know."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if 0 <= value < MOST_STATUSES else -1 if value < 0 else MOST_STATUSES
    if isinstance(value, str):
        return ruled_text(value)
    if isinstance(value, float):
        return 0.5 if value else 0.0
    return _kind_of(value) if value else value


def _kind_of(value: AttributeValue) -> AttributeValue:
    kinds: Sequence[tuple[type, AttributeValue]] = (
        (bool, True), (int, 1), (float, 0.5), (str, ANY), (bytes, b"\0"), (tuple, (ANY,)),
    )  # fmt: skip
    return next((one for kind, one in kinds if isinstance(value, kind)), None)


def _ruled_events(events: Sequence[Event]) -> Iterator[Event]:
    """Yield events as if rules asked only of each whether there is one, or how many."""
    if events:
        yield _event(ANY)
    if any(event.name in FIRST_TOKEN_EVENTS for event in events):
        yield _event(min(FIRST_TOKEN_EVENTS))
    for event in events:
        if any(part in event.name.lower() for part in PUT_BACK):
            yield _event(PUT_BACK[0])


def _event(name: str) -> Event:
    return Event(time_ns=0, name=name)


class Shapes:
    """Numbers shapes from 0 on, always the same for the same one.

    Args:
        most: How many; spans of further ones have none.
    """

    def __init__(self, most: int = MOST_SHAPES) -> None:
        self.spans: list[Span] = []  # by number, one of each
        self._most = most
        self._numbers: dict[str, int] = {}

    def number(self, span: Span) -> int:
        """The number of a span's shape; `NO_SHAPE`: none is left."""
        found = ruled(span)
        # As text: True is no 1, and NaN is itself.
        shape = repr(found)
        number = self._numbers.get(shape, NO_SHAPE)
        if number == NO_SHAPE and len(self.spans) < self._most:
            number = self._numbers[shape] = len(self.spans)
            self.spans.append(found)
        return number
