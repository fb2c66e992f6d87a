"""Columns of spans as a block in the engine's Native format, ready to be inserted.

It costs 0.9 µs of CPU a span, and the insert 1.5, in blocks of 20 000
(`tests/benchmarks/bench_ingest.py`).

An attribute's value becomes text, as the Collector writes it, and a letter for its type:
`s` string, `b` bool, `i` int, `d` double, `y` bytes (base64), `a` array and `m` map
(JSON), `n` none. Within JSON, what it cannot say is an object of letter and base64:
`{"y":"…"}` bytes, `{"a":"…"}` and `{"m":"…"}` the protobuf of what is nested deeper.
Arrays and maps of resources, events and links are that base64 alone.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValueList

from latencytrace.analysis.columns.facts import as_json
from latencytrace.service.otlp.compiled.core import core
from latencytrace.service.otlp.span_block import (
    KINDS,
    STATUSES,
    Numbers,
    Records,
    SpanBlock,
    ranges,
    taken,
)
from latencytrace.service.otlp.values import LETTERS, Form, double_text, flat_text
from latencytrace.service.sql import native_values
from latencytrace.service.sql.native_values import VERSION, packed
from latencytrace.service.sql.tables import ARRIVALS, SPAN_COLUMNS, SPANS, Target, column_type

_COLUMN_TYPES: Final = {name: column_type(SPAN_COLUMNS[name]) for name in SPAN_COLUMNS}

ARRIVED: Final = Target(table=ARRIVALS, columns=_COLUMN_TYPES, block_format="Native")
KEPT: Final = Target(table=SPANS, columns=_COLUMN_TYPES, block_format="Native")

_LONGEST_REMEMBERED = 256  # of lists and maps
_DIGITS = 16  # of a number in hex


def native(block: SpanBlock, rows: Numbers | None = None) -> bytes:
    """A block of the columns `SPAN_COLUMNS`; empty: it has no rows.

    Args:
        rows: Which of them; None: all.
    """
    spans = block.table if rows is None else taken(block.table, rows)
    if not len(spans):
        return b""
    columns = _Columns(block, spans).columns()
    parts = [native_values.size(len(_COLUMN_TYPES)), native_values.size(len(spans))]
    for name, kind in _COLUMN_TYPES.items():
        parts += (packed(name.encode()), packed(kind.encode()), *columns[name])
    return b"".join(parts)


_Parts = Iterable[bytes]


class _Columns:
    """The columns of some spans of a block."""

    def __init__(self, block: SpanBlock, spans: Records) -> None:
        self._block = block
        self._spans = spans

    def columns(self) -> Mapping[str, _Parts]:
        """By name, each as the parts of its bytes."""
        spans, block = self._spans, self._block
        start_ns = spans["start_ns"]
        scopes = taken(block.scopes, spans["scope"])
        pairs = taken(block.pairs, ranges(spans["pairs"], spans["pair_count"]))
        return {
            "Timestamp": [start_ns.tobytes()],
            "TraceId": [_hex(spans["trace_high"], spans["trace_low"])],
            "SpanId": [_hex(spans["span_id"])],
            "ParentSpanId": [_hex_or_empty(spans["parent_id"])],
            "TraceState": [self._strings(spans["state"])],
            "SpanName": self._words(spans["name"]),
            "SpanKind": _low([str(kind).encode() for kind in KINDS], spans["kind"]),
            "ScopeName": self._words(scopes["name"]),
            "ScopeVersion": self._words(scopes["version"]),
            "SpanAttributes": [
                VERSION,
                _offsets(spans["pair_count"]),
                *self._words(pairs["key"])[1:],
                *_values(block, pairs, _deep_text),
            ],
            "SpanAttributeTypes": _types(pairs, spans["pair_count"]),
            "Duration": [(spans["end_ns"] - start_ns).tobytes()],
            "StatusCode": _low([str(status).encode() for status in STATUSES], spans["status"]),
            "StatusMessage": [self._strings(spans["message"])],
            "ContentRemoved": [spans["removed"].astype(np.uint32).tobytes()],
            **self._of_resources(),
            **self._of_events(),
            **self._of_links(),
        }

    def _of_resources(self) -> Mapping[str, _Parts]:
        block, number = self._block, self._spans["resource"]
        found = taken(block.resources, number)
        keys: list[NDArray[np.int32]] = []
        values: list[bytes] = []
        known: dict[int, tuple[NDArray[np.int32], bytes]] = {}
        for first, last in _runs(number):
            one = int(number[first])
            if one not in known:
                at, count = block.resources[one].tolist()[:2]
                pairs = block.pairs[at : at + count]
                known[one] = (pairs["key"], b"".join(_values(block, pairs, _base64_text)))
            key, value = known[one]
            keys.append(np.tile(key, last - first))
            values.append(value * (last - first))
        return {
            "ServiceName": self._words(found["service"]),
            "ServiceInstance": self._words(found["instance"]),
            "ServiceVersion": self._words(found["version"]),
            "Host": self._words(found["host"]),
            "ResourceAttributes": [
                VERSION,
                _offsets(found["pair_count"]),
                *self._words(np.concatenate(keys) if keys else _NO_NUMBERS)[1:],
                *values,
            ],
        }

    def _of_events(self) -> Mapping[str, _Parts]:
        counts = self._spans["event_count"]
        events = taken(self._block.events, ranges(self._spans["events"], counts))
        offsets = _offsets(counts)
        maps, types = self._maps(events)
        return {
            "Events.Timestamp": [offsets, events["time_ns"].tobytes()],
            "Events.Name": _array(offsets, self._words(events["name"])),
            "Events.Attributes": _array(offsets, maps),
            "Events.AttributeTypes": _array(offsets, types),
        }

    def _of_links(self) -> Mapping[str, _Parts]:
        counts = self._spans["link_count"]
        links = taken(self._block.links, ranges(self._spans["links"], counts))
        offsets = _offsets(counts)
        maps, types = self._maps(links)
        return {
            "Links.TraceId": [offsets, self._strings(links["trace"], _as_hex)],
            "Links.SpanId": [offsets, self._strings(links["span"], _as_hex)],
            "Links.TraceState": [offsets, self._strings(links["state"])],
            "Links.Attributes": _array(offsets, maps),
            "Links.AttributeTypes": _array(offsets, types),
        }

    def _maps(self, owners: Records) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """The attributes of events or links, and the letters of their types."""
        counts = owners["pair_count"]
        pairs = taken(self._block.pairs, ranges(owners["pairs"], counts))
        keys = self._words(pairs["key"])
        values = _values(self._block, pairs, _base64_text)
        maps = [VERSION, _offsets(counts), *keys[1:], *values]
        return maps, _types(pairs, counts)

    def _words(self, numbers: NDArray[np.int32]) -> Sequence[bytes]:
        """Words with their own dictionary."""
        used, index = _used(numbers, len(self._block.words))
        return _low([self._block.word_bytes(word) for word in used.tolist()], index)

    def _strings(
        self, numbers: NDArray[np.int32], written: Callable[[bytes], bytes] = bytes
    ) -> bytes:
        """Words without one."""
        used, index = _used(numbers, len(self._block.words))
        texts = [packed(written(self._block.word_bytes(word))) for word in used.tolist()]
        if len(texts) == 1:
            return texts[0] * len(numbers)
        return b"".join([texts[place] for place in index.tolist()])


# Values


def _values(
    block: SpanBlock, pairs: Records, text_of: Callable[[int, bytes], bytes]
) -> Sequence[bytes]:
    if core is None or not len(pairs):
        return _plain_values(block, pairs, text_of)
    forms = pairs["form"]
    others, starts, ends = _other_texts(
        block, taken(pairs, np.flatnonzero(forms >= Form.DOUBLE)), text_of
    )
    longest = int(pairs["size"][forms == Form.STRING].sum()) + len(others)
    out = np.empty(longest + _MOST_BYTES_BESIDE * len(pairs), np.uint8)
    size = core.values(block.texts, pairs, others, starts, ends, out)
    return [out[:size].tobytes()]


_MOST_BYTES_BESIDE = 21  # of a text: its length; all of a number


def _plain_values(
    block: SpanBlock, pairs: Records, text_of: Callable[[int, bytes], bytes]
) -> Sequence[bytes]:
    texts = block.texts
    made: list[bytes] = []
    for value, size, _, form, _ in pairs.tolist():
        text = texts[value : value + size]
        if form in _NESTED:
            text = text_of(form, text)
        elif form != Form.STRING:
            text = flat_text(form, value, text).encode()
        made.append(packed(text))
    return made


def _other_texts(
    block: SpanBlock, pairs: Records, text_of: Callable[[int, bytes], bytes]
) -> tuple[bytes, Numbers, Numbers]:
    """The texts of fractions, lists, maps and bytes; where each begins and ends."""
    forms = pairs["form"]
    doubles = pairs["value"][forms == Form.DOUBLE].view(np.float64)
    json, odd = as_json(doubles)
    if len(doubles) == len(pairs) > 0 and not len(odd):
        commas = np.flatnonzero(np.frombuffer(json, np.uint8) == _COMMA)
        return json, np.append(0, commas + 1), np.append(commas, len(json))
    of_doubles = json.split(b",")
    for place in odd.tolist():
        of_doubles[place] = double_text(float(doubles[place])).encode()
    following, texts = iter(of_doubles), block.texts
    made = of_doubles
    if len(doubles) < len(pairs):
        made = [
            next(following)
            if form == Form.DOUBLE
            else text_of(form, texts[value : value + size])
            if form in _NESTED
            else b64encode(texts[value : value + size])
            for value, size, _, form, _ in pairs.tolist()
        ]
    ends = np.cumsum(np.fromiter(map(len, made), np.int64, len(made)))
    return b"".join(made), np.append(0, ends)[:-1], ends


_COMMA = ord(",")
_NESTED: Final = frozenset({Form.ARRAY, Form.MAP})


def _base64_text(_form: int, raw: bytes) -> bytes:
    return b64encode(raw)


def _deep_text(form: int, raw: bytes) -> bytes:
    return (_known_json if len(raw) <= _LONGEST_REMEMBERED else _json)(form, raw)


def _json(form: int, raw: bytes) -> bytes:
    """A list or a map as JSON."""
    if form == Form.ARRAY:
        items = map(_json_of, ArrayValue.FromString(raw).values)
        return f"[{','.join(items)}]".encode()
    named = (
        f"{_quoted(pair.key)}:{_json_of(pair.value)}"
        for pair in KeyValueList.FromString(raw).values
    )
    return f"{{{','.join(named)}}}".encode()


_known_json = lru_cache(maxsize=4096)(_json)  # most lists are short and few


def _json_of(value: AnyValue) -> str:
    return _JSON[value.WhichOneof("value")](value)


_JSON: Final[Mapping[str | None, Callable[[AnyValue], str]]] = {
    None: lambda _: "null",
    "string_value": lambda value: _quoted(value.string_value),
    "string_value_strindex": lambda _: "null",
    "bool_value": lambda value: "true" if value.bool_value else "false",
    "int_value": lambda value: str(value.int_value),
    "double_value": lambda value: _json_double(value.double_value),
    "bytes_value": lambda value: _json_bytes("y", value.bytes_value),
    "array_value": lambda value: _json_bytes("a", value.array_value.SerializeToString()),
    "kvlist_value": lambda value: _json_bytes("m", value.kvlist_value.SerializeToString()),
}


def _json_double(value: float) -> str:
    """A fraction that JSON's readers take for one."""
    text = double_text(value)
    text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)
    return text if re.search("[^-0-9]", text) else f"{text}.0"


def _json_bytes(letter: str, raw: bytes) -> str:
    return f'{{"{letter}":"{b64encode(raw).decode()}"}}'


def _quoted(text: str) -> str:
    """A text in JSON, as the engine escapes it."""
    return f'"{text.translate(_ESCAPES)}"'


_ESCAPES: Final = str.maketrans(
    {
        **{code: f"\\u{code:04X}" for code in (*range(0x20), 0x2028, 0x2029)},
        '"': '\\"',
        "\\": "\\\\",
        "/": "\\/",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
    }
)


# The format


def _types(pairs: Records, counts: NDArray[np.int32]) -> Sequence[bytes]:
    """The letters of types of each owner's attributes; empty where all are strings."""
    if core is None or not len(counts):
        return _texts(_letters(pairs, counts))
    hashes = np.empty(len(counts), np.int64)
    core.forms(pairs, np.ascontiguousarray(counts), hashes)
    _, rows, index = np.unique(hashes, return_index=True, return_inverse=True)
    ends = np.cumsum(counts, dtype=np.int64)[rows]
    some = pairs[ranges(ends - counts[rows], counts[rows])]
    return _low(_letters(some, counts[rows]), index)


def _letters(pairs: Records, counts: NDArray[np.int32]) -> list[bytes]:
    letters = _LETTERS[pairs["form"]].tobytes()
    ends = np.cumsum(counts, dtype=np.int64)
    texts = [
        letters[end - count : end]
        for end, count in zip(ends.tolist(), counts.tolist(), strict=True)
    ]
    return [text if text.strip(b"s") else b"" for text in texts]


_LETTERS = np.frombuffer(LETTERS.encode(), np.uint8)
_NO_NUMBERS = np.zeros(0, np.int32)


def _runs(numbers: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """Where equal numbers that lie side by side begin and end."""
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    return pairwise(edges) if len(numbers) else iter(())


def _used(numbers: NDArray[np.int32], most: int) -> tuple[Numbers, NDArray[np.integer]]:
    """Which numbers there are, and the place of each among them."""
    rows = numbers.astype(np.intp)
    seen = np.zeros(most, np.bool_)
    seen[rows] = True
    used = np.flatnonzero(seen).astype(np.int64)
    places: NDArray[Any] = np.zeros(most, native_values.index_type(len(used)))
    places[used] = np.arange(len(used))
    return used, places[rows]


def _texts(texts: Sequence[bytes]) -> Sequence[bytes]:
    """Texts of which there are few different ones."""
    places: dict[bytes, int] = {}
    index = [places.setdefault(text, len(places)) for text in texts]
    return _low(list(places), np.array(index, np.int64))


def _low(texts: Sequence[bytes], index: NDArray[np.integer]) -> Sequence[bytes]:
    """A column of the type LowCardinality(String): its head, and the rest, if it has rows."""
    return (VERSION, *native_values.dictionary(texts, index))


def _array(offsets: bytes, items: Sequence[bytes]) -> Sequence[bytes]:
    """A column of lists: what stands before its items' own rows comes first."""
    return (items[0], offsets, *items[1:])


def _offsets(counts: NDArray[np.int32]) -> bytes:
    return np.cumsum(counts, dtype=np.uint64).tobytes()


def _as_hex(identifier: bytes) -> bytes:
    return identifier.hex().encode()


def _hex(*halves: NDArray[np.uint64]) -> bytes:
    """Numbers as texts of 16 or 32 digits."""
    return _hex_rows(*halves).tobytes()


def _hex_rows(*halves: NDArray[np.uint64]) -> NDArray[np.uint8]:
    numbers = np.stack(halves, axis=1).astype(">u8")
    digits = np.frombuffer(numbers.tobytes().hex().encode(), np.uint8)
    rows = np.empty((len(numbers), 1 + _DIGITS * len(halves)), np.uint8)
    rows[:, 0] = rows.shape[1] - 1
    rows[:, 1:] = digits.reshape(len(numbers), -1)
    return rows


def _hex_or_empty(numbers: NDArray[np.uint64]) -> bytes:
    """The same, but that 0 is an empty text."""
    rows = _hex_rows(numbers)
    is_empty = numbers == 0
    rows[is_empty, 0] = 0
    written = np.ones(rows.shape, np.bool_)
    written[is_empty, 1:] = False
    return rows[written].tobytes()
