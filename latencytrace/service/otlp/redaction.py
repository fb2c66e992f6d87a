"""Trace requests without content, before anything of them is written.

It costs about 8 µs of CPU a span of nine attributes (`tests/benchmarks/bench_ingest.py`): what
becomes of a key is remembered, and of short texts under it too. What is removed leaves a mark
in its place, which the store counts; to redact twice changes nothing more. Fields that the
store does not keep, or that OTLP does not define, are cleared.

Docs: `docs/pages/privacy.md`.
"""

from collections.abc import Callable, Iterable
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.service.otlp import plain_text
from latencytrace.service.otlp.content_keys import LONGEST_KEY, Kind, kind_of
from latencytrace.service.otlp.plain_text import MARK

MOST_REMEMBERED: Final = 4096  # keys, and texts of each kind
LONGEST_REMEMBERED: Final = 256  # characters
MOST_ITEMS: Final = 16  # of an array under a known key
LONGEST_ITEM: Final = 64

_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8
_SCALARS = frozenset({"bool_value", "int_value", "double_value"})


class Texts(dict[str, str | None]):
    """Replacements of texts under some keys; None: the text stays.

    Args:
        plain: Says so of one that is not remembered.
        takes_numbers: Whether numbers and truths stay there.
        takes_lists: Whether short lists of names and numbers do.
    """

    def __init__(
        self,
        plain: Callable[[str], str],
        *,
        takes_numbers: bool = True,
        takes_lists: bool = False,
        takes_key: bool = True,
        remembers: bool = True,
    ) -> None:
        super().__init__()
        self._plain = plain
        self.takes_numbers = takes_numbers
        self.takes_lists = takes_lists
        self.takes_key = takes_key
        self._longest = LONGEST_REMEMBERED if remembers else -1

    def __missing__(self, text: str) -> str | None:
        plain = None if text == MARK else self._plain(text)
        found = None if plain == text else plain
        if len(text) <= self._longest:
            if len(self) >= MOST_REMEMBERED:
                self.clear()
            self[text] = found
        return found


KINDS: Final = {
    Kind.KNOWN: Texts(plain_text.known, takes_lists=True),
    Kind.LONG: Texts(plain_text.long),
    Kind.ADDRESS: Texts(plain_text.address),
    Kind.PACKED: Texts(plain_text.packed),
    Kind.COUNTS: Texts(plain_text.counts),
    Kind.WORD: Texts(plain_text.word),
    Kind.NUMBER: Texts(plain_text.number),
    Kind.UNKNOWN: Texts(plain_text.unknown),
    Kind.CONTENT: Texts(plain_text.content, remembers=False),
    Kind.STRICT: Texts(plain_text.content, takes_numbers=False, remembers=False),
    Kind.NAMELESS: Texts(
        plain_text.content, takes_numbers=False, takes_key=False, remembers=False
    ),
}


class _Keys(dict[str, Texts]):
    """The treatment of the texts under each key."""

    def __missing__(self, key: str) -> Texts:
        kind = kind_of(key)
        if len(key) <= LONGEST_KEY and plain_text.holds_secret(key):
            kind = Kind.NAMELESS
        texts = KINDS[kind]
        if len(key) <= LONGEST_REMEMBERED:
            if len(self) >= MOST_REMEMBERED:
                self.clear()
            self[key] = texts
        return texts


_KEYS = _Keys()


def texts_under(key: str) -> Texts:
    """Return what becomes of the texts under a key: one of `KINDS`."""
    return _KEYS[key]


NAMES = Texts(plain_text.name)
STATUSES = Texts(plain_text.status)
STATES = Texts(plain_text.state)


def redact(message: ExportTraceServiceRequest) -> None:
    """Take everything out of a request that is content, or may be."""
    message.DiscardUnknownFields()
    for spans in message.resource_spans:
        spans.ClearField("schema_url")
        spans.resource.ClearField("entity_refs")
        _redact(spans.resource.attributes)
        for scoped in spans.scope_spans:
            scoped.ClearField("schema_url")
            if scoped.HasField("scope"):
                _redact_scope(scoped.scope)
            for span in scoped.spans:
                _redact_span(span)


def _redact_scope(scope: InstrumentationScope) -> None:
    scope.ClearField("attributes")
    scope.name = _plain(NAMES, scope.name)
    scope.version = _plain(NAMES, scope.version)


def _redact_span(span: ProtoSpan) -> None:
    name = NAMES[span.name]
    if name is not None:
        span.name = name
    if span.trace_state:
        span.trace_state = _plain(STATES, span.trace_state)
    parent_id = span.parent_span_id
    if parent_id and len(parent_id) != _SPAN_ID_BYTES:
        span.ClearField("parent_span_id")
    if span.HasField("status") and span.status.message:
        span.status.message = _plain(STATUSES, span.status.message)
    _redact(span.attributes)
    for event in span.events:
        event.name = _plain(NAMES, event.name)
        _redact(event.attributes)
    for link in span.links:
        _redact_link(link)


def _redact_link(link: ProtoSpan.Link) -> None:
    if len(link.trace_id) != _TRACE_ID_BYTES:
        link.ClearField("trace_id")
    if len(link.span_id) != _SPAN_ID_BYTES:
        link.ClearField("span_id")
    link.trace_state = _plain(STATES, link.trace_state)
    _redact(link.attributes)


def _redact(pairs: Iterable[KeyValue]) -> None:
    keys, scalars = _KEYS, _SCALARS  # both are looked up for each of them
    for pair in pairs:
        texts = keys[pair.key]
        value = pair.value
        text = value.string_value
        if text:
            plain = texts[text]
            if plain is None:
                continue
            value.string_value = plain
        else:
            form = value.WhichOneof("value")
            if texts.takes_numbers if form in scalars else _takes(texts, form, value):
                continue
            value.string_value = MARK
        if not texts.takes_key:
            pair.key = MARK


def _takes(texts: Texts, form: str | None, value: AnyValue) -> bool:
    """Return whether a value stays that is neither a text nor a number."""
    if form is None:
        return texts.takes_key
    if form == "string_value":
        return texts[""] is None
    return form == "array_value" and texts.takes_lists and is_plain(value.array_value.values)


def is_plain(items: Iterable[AnyValue]) -> bool:
    """Return whether a list has a few short names and numbers alone."""
    for count, item in enumerate(items):
        form = item.WhichOneof("value")
        text = item.string_value
        is_name = form == "string_value" and len(text) <= LONGEST_ITEM
        if count >= MOST_ITEMS or not (form in _SCALARS or (is_name and _is_known(text))):
            return False
    return True


def _is_known(text: str) -> bool:
    return plain_text.known(text) == text


def _plain(texts: Texts, text: str) -> str:
    plain = texts[text]
    return text if plain is None else plain
