"""Batches of whole spans, laid out as columns one by one: what a service makes of posts."""

from collections.abc import Mapping, Sequence

import numpy as np

from latencytrace.analysis.calls.retries import METHODS, TARGETS
from latencytrace.analysis.columns.keys import CODES, COUNTS, PACKED
from latencytrace.analysis.columns.shapes import NO_SHAPE, Shapes
from latencytrace.analysis.tail.cohort_attributes import LEFT_OUT
from latencytrace.model import AttributeValue, Span, semconv
from latencytrace.model.cohorts.breakdown import attribute_text
from latencytrace.model.span_batch import EMPTY, TEXT, CarriedValues, Resource, SpanBatch

_BEYOND = 1 << 63  # what no column of times holds
_KINDS: tuple[type, ...] = (type(None), str, bool, int, float, tuple, dict, bytes, object)


def span_batch(spans_by_trace: Mapping[str, Sequence[Span]], shapes: Shapes) -> SpanBatch:
    """Lay spans out.

    Args:
        spans_by_trace: By trace id, in any order. Their ids are of hex digits.
        shapes: Numbers their shapes.
    """
    spans = [span for together in spans_by_trace.values() for span in together]
    resources = list(dict.fromkeys(map(_resource, spans)))
    lengths = [len(together) for together in spans_by_trace.values()]
    return SpanBatch(
        trace_ids=tuple(spans_by_trace),
        first=np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64),
        span_id=np.array([int(span.span_id, 16) for span in spans], np.uint64),
        parent_id=np.array([int(span.parent_id or "0", 16) for span in spans], np.uint64),
        start_ns=np.array([_time(span.start_ns) for span in spans], np.int64),
        end_ns=np.array([_time(span.end_ns) for span in spans], np.int64),
        shape=np.array([_shape(span, shapes) for span in spans], np.int32),
        shapes=shapes.spans,
        resource=_rows([resources.index(_resource(span)) for span in spans]),
        resources=resources,
        name=_rows([_hash(span.name) for span in spans]),
        counts={
            key: (_rows(rows), _rows(values))  # type: ignore[arg-type] # they are whole numbers
            for key, (rows, values) in _sparse(spans, COUNTS, {int}).items()
        },
        packed={
            key: (_rows(rows), values)
            for key, (rows, values) in _sparse(spans, PACKED, {str, bytes, int, float}).items()
        },
        carried=carried(spans),
        target=_rows(list(map(_target, spans))),
        name_of=lambda row: spans[row].name,
        span=spans.__getitem__,
        stated=_rows([row for row, span in enumerate(spans) if span.trace_state]),
        trace_state=lambda row: spans[row].trace_state,
    )


def carried(spans: Sequence[Span]) -> CarriedValues:
    """The attributes of spans."""
    pairs = [pair for span in spans for pair in span.attributes.items()]
    count = _rows([len(span.attributes) for span in spans])
    told = [(key, attribute_text(value)) for key, value in pairs]
    item, items = list(range(len(pairs))), [int(_is_told(*pair)) for pair in pairs]
    for place, (key, value) in enumerate(pairs):
        if isinstance(value, tuple) and items[place]:
            item[place], items[place] = len(told), len(value)
            told += [(key, attribute_text(one)) for one in value]
    keys = [key for key, _ in told]

    def texts(places: np.ndarray) -> tuple[bytes, np.ndarray]:
        written = [_after_length(told[place][1]) for place in places.tolist()]
        return b"".join(written), _rows(list(map(len, written)))

    return CarriedValues(
        begin=np.cumsum(count) - count,
        count=count,
        row=np.repeat(np.arange(len(spans)), count),
        code=np.array([CODES.get(key, 0) for key, _ in pairs], np.int32),
        kind=np.array([_kind(value) for _, value in pairs], np.int32),
        number=_rows([_hash(pair) for pair in told]),
        item=_rows(item),
        items=_rows(items),
        keys=lambda places: (np.arange(len(places)), [keys[place] for place in places.tolist()]),
        texts=texts,
        value=lambda place: pairs[place][1],
    )


def _sparse(
    spans: Sequence[Span], keys: frozenset[str], kinds: set[type]
) -> dict[str, tuple[list[int], list[AttributeValue]]]:
    found: dict[str, tuple[list[int], list[AttributeValue]]] = {}
    for row, span in enumerate(spans):
        for key, value in span.attributes.items():
            if key in keys and type(value) in kinds and (keys is PACKED or _fits(value)):
                rows, values = found.setdefault(key, ([], []))
                rows.append(row)
                values.append(value)
    return found


def _shape(span: Span, shapes: Shapes) -> int:
    """The number of a span's shape; a whole number beyond what OTLP has makes it odd."""
    fits = all(_fits(value) for key, value in span.attributes.items() if key in COUNTS)
    return shapes.number(span) if fits else NO_SHAPE


def _fits(value: AttributeValue) -> bool:
    return type(value) is not int or -_BEYOND <= value < _BEYOND


def _is_told(key: str, value: AttributeValue) -> bool:
    return key not in LEFT_OUT and value is not None and value != semconv.CONTENT_REMOVED


def _kind(value: AttributeValue) -> int:
    found = next(at for at, kind in enumerate(_KINDS) if isinstance(value, kind))
    return EMPTY if found == TEXT and not value else found


def _resource(span: Span) -> Resource:
    return Resource(span.service, span.instance, span.host, span.version)


def _target(span: Span) -> int:
    said = [(key, span.attributes.get(key)) for key in (*TARGETS, *METHODS)]
    if all(value is None for key, value in said if key in TARGETS):
        return 0
    return _hash((span.scope, span.name, repr(said)))


def _after_length(text: str) -> bytes:
    written = text.encode("utf-8", "surrogateescape")
    size = len(written)
    return (bytes((size,)) if size < 0x80 else bytes((size & 0x7F | 0x80, size >> 7))) + written


def _hash(what: object) -> int:
    return hash(what) & ((1 << 63) - 1) or 1


def _rows(numbers: Sequence[int]) -> np.ndarray:
    return np.array(numbers, np.int64)


def _time(time_ns: int) -> int:
    return time_ns if time_ns < _BEYOND else -1
