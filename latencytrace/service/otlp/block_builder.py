"""Columns of spans from a decoded request: the plain way, and the oracle of the compiled one.

It costs 15 to 20 µs of CPU a span (`tests/benchmarks/bench_ingest.py`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import DTypeLike
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.model import semconv
from latencytrace.model.texts.escaped import is_blank
from latencytrace.service.otlp.messages import SPAN_ID_BYTES, has_ids
from latencytrace.service.otlp.span_block import (
    EVENT,
    HAS_TEXT,
    KINDS,
    LINK,
    NOT_SHAPED,
    PAIR,
    RESOURCE,
    SCOPE,
    SPAN,
    STATUSES,
    WORD,
    Records,
    SpanBlock,
)
from latencytrace.service.otlp.values import Form, bits_of, flat_text

NAMELESS: Final = "unknown_service"
CLOCK_NAMES: Final = (semconv.K8S_NODE_NAME, semconv.HOST_ID, semconv.HOST_NAME)


_FORMS: Final[Mapping[str | None, Form]] = {
    "string_value": Form.STRING, "bool_value": Form.BOOL, "int_value": Form.INT,
    "double_value": Form.DOUBLE, "array_value": Form.ARRAY, "kvlist_value": Form.MAP,
    "bytes_value": Form.BYTES,
}  # fmt: skip


def span_block_of(message: ExportTraceServiceRequest) -> SpanBlock:
    """The columns of a request; spans whose ids are no ids are left out and counted.

    Args:
        message: Request whose content is removed already.
    """
    return _Builder().block(message)


class _Builder:
    """Takes the parts of a request one by one."""

    def __init__(self) -> None:
        self._texts = bytearray()
        self._numbers = {b"": 0}
        self._words = [(0, 0, 0)]
        self._pairs: list[tuple[int, ...]] = []
        self._spans: list[tuple[int, ...]] = []
        self._events: list[tuple[int, ...]] = []
        self._links: list[tuple[int, ...]] = []
        self._resources: list[tuple[int, ...]] = []
        self._scopes: list[tuple[int, ...]] = []
        self._rejected = 0

    def block(self, message: ExportTraceServiceRequest) -> SpanBlock:
        for spans in message.resource_spans:
            self._resources.append(self._resource(spans.resource))
            for scoped in spans.scope_spans:
                self._scopes.append(self._scope(scoped.scope))
                for span in scoped.spans:
                    if has_ids(span):
                        self._spans.append(self._span(span))
                    else:
                        self._rejected += 1
        return SpanBlock(
            texts=bytes(self._texts),
            words=_records(self._words, WORD),
            pairs=_records(self._pairs, PAIR),
            table=_records(self._spans, SPAN),
            events=_records(self._events, EVENT),
            links=_records(self._links, LINK),
            resources=_records(self._resources, RESOURCE),
            scopes=_records(self._scopes, SCOPE),
            rejected=self._rejected,
        )

    def _resource(self, resource: Resource) -> tuple[int, ...]:
        first, count, _ = self._attributes(resource.attributes)
        named: dict[str, str] = {}
        for pair in resource.attributes:
            value = pair.value
            form = _FORMS.get(value.WhichOneof("value"), Form.NONE)
            named.setdefault(pair.key, flat_text(form, *_READ[form](value)))
        return (first, count, *(self._word(text.encode()) for text in resource_words(named)))

    def _scope(self, scope: InstrumentationScope) -> tuple[int, ...]:
        return (self._word(scope.name.encode()), self._word(scope.version.encode()))

    def _span(self, span: ProtoSpan) -> tuple[int, ...]:
        trace_id, parent_id = span.trace_id, span.parent_span_id
        kind, status = span.kind, span.status.code
        pairs, pair_count, removed = self._attributes(span.attributes)
        events, links = len(self._events), len(self._links)
        for event in span.events:
            first, count, in_event = self._attributes(event.attributes)
            name = self._word(event.name.encode())
            self._events.append((event.time_unix_nano, name, first, count, 0))
            removed += in_event
        for link in span.links:
            removed += self._link(link)
        return (
            int.from_bytes(trace_id[:8]),
            int.from_bytes(trace_id[8:]),
            int.from_bytes(span.span_id),
            int.from_bytes(parent_id) if len(parent_id) == SPAN_ID_BYTES else 0,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            pairs,
            pair_count,
            events,
            len(self._events) - events,
            links,
            len(self._links) - links,
            self._word(span.name.encode()),
            self._word(span.trace_state.encode()),
            self._word(span.status.message.encode()),
            len(self._resources) - 1,
            len(self._scopes) - 1,
            removed,
            NOT_SHAPED,
            kind if 0 <= kind < len(KINDS) else 0,
            status if 0 <= status < len(STATUSES) else 0,
        )

    def _link(self, link: ProtoSpan.Link) -> int:
        first, count, removed = self._attributes(link.attributes)
        words = (link.trace_id, link.span_id, link.trace_state.encode())
        self._links.append((*map(self._word, words), first, count, 0))
        return removed

    def _attributes(self, pairs: Iterable[KeyValue]) -> tuple[int, int, int]:
        """Return where they begin, their number, and in how many of them content was removed."""
        first = len(self._pairs)
        removed = 0
        for pair in pairs:
            value = pair.value
            form = _FORMS.get(value.WhichOneof("value"), Form.NONE)
            number, text = _READ[form](value)
            if form in HAS_TEXT:
                number = len(self._texts)
                self._texts += text
                removed += form == Form.STRING and text == _REMOVED
            self._pairs.append((number, len(text), self._word(pair.key.encode()), form, 0))
        return first, len(self._pairs) - first, removed

    def _word(self, text: bytes) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._words)
            self._words.append((len(self._texts), len(text), 0))
            self._texts += text
        return number


_REMOVED = semconv.CONTENT_REMOVED.encode()


def resource_words(named: Mapping[str, str]) -> tuple[str, str, str, str]:
    """Service, instance, version and host of a resource, of its attributes as texts.

    A blank name counts as an empty one: it could not be seen, or asked for.
    """
    seen = {key: text for key, text in named.items() if not is_blank(text)}
    return (
        seen.get(semconv.SERVICE_NAME, NAMELESS),
        seen.get(semconv.SERVICE_INSTANCE_ID, ""),
        seen.get(semconv.SERVICE_VERSION, ""),
        next((seen[key] for key in CLOCK_NAMES if key in seen), ""),
    )


_READ: Final[Mapping[Form, Callable[[AnyValue], tuple[int, bytes]]]] = {
    Form.NONE: lambda _: (0, b""),
    Form.STRING: lambda value: (0, value.string_value.encode()),
    Form.BOOL: lambda value: (int(value.bool_value), b""),
    Form.INT: lambda value: (value.int_value, b""),
    Form.DOUBLE: lambda value: (bits_of(value.double_value), b""),
    Form.ARRAY: lambda value: (0, value.array_value.SerializeToString()),
    Form.MAP: lambda value: (0, value.kvlist_value.SerializeToString()),
    Form.BYTES: lambda value: (0, value.bytes_value),
}
"""By form: a value's number and its text."""


def _records(rows: Sequence[tuple[int, ...]], kind: DTypeLike) -> Records:
    return np.array(rows, kind)
