"""The spans of a post as columns: decoded once, for the store and for the ledgers.

What differs from span to span is in arrays of records; each name, key and the like is a word,
which a block has once. Texts lie in one piece of memory, and are no objects before
a span is asked for (`SpanBlock.spans`, 10 to 15 µs).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.common.v1.common_pb2 import ArrayValue, KeyValueList

from latencytrace.model import Attributes, AttributeValue, Event, Link, Span, SpanKind, StatusCode
from latencytrace.service.otlp.values import Form, double_of, from_array, from_map

Records = NDArray[Any]  # of one of the kinds below
Numbers = NDArray[np.int64]

# A word is where its text lies, and its code, if it is a key that the analysis asks for by name.
WORD: Final = np.dtype([("at", "i8"), ("size", "i4"), ("code", "i4")])
# A text's value is where it lies; a number's is its bits.
PAIR: Final = np.dtype(
    [("value", "i8"), ("size", "i4"), ("key", "i4"), ("form", "i4"), ("unused", "i4")]
)
RESOURCE: Final = np.dtype(
    [(name, "i4") for name in ("pairs", "pair_count", "service", "instance", "version", "host")]
)
SCOPE: Final = np.dtype([("name", "i4"), ("version", "i4")])
EVENT: Final = np.dtype(
    [("time_ns", "u8"), ("name", "i4"), ("pairs", "i4"), ("pair_count", "i4"), ("unused", "i4")]
)
LINK: Final = np.dtype(
    [(name, "i4") for name in ("trace", "span", "state", "pairs", "pair_count", "unused")]
)
SPAN: Final = np.dtype(
    [
        *((name, "u8") for name in ("trace_high", "trace_low", "span_id", "parent_id")),
        *((name, "u8") for name in ("start_ns", "end_ns")),
        *((name, "i4") for name in ("pairs", "pair_count", "events", "event_count")),
        *((name, "i4") for name in ("links", "link_count", "name", "state", "message")),
        *((name, "i4") for name in ("resource", "scope", "removed", "shape")),
        ("kind", "i2"),
        ("status", "i2"),
    ]
)
NO_SHAPE: Final = -1
NOT_SHAPED: Final = -2  # its shape was not looked for yet

KINDS: Final = tuple(SpanKind)
STATUSES: Final = tuple(StatusCode)
_SERVER = KINDS.index(SpanKind.SERVER)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpanBlock:
    """The spans of one post or of several: their ids are checked, content is removed.

    Where a record says `pairs` and `pair_count`, it has so many of `pairs` from there.
    """

    texts: bytes
    words: Records  # of kind WORD; the first is empty
    pairs: Records  # of kind PAIR
    table: Records  # (n,), of kind SPAN
    events: Records
    links: Records
    resources: Records
    scopes: Records
    rejected: int = 0  # spans without ids, which were left out
    _known: dict[int, str] = field(default_factory=dict, init=False)  # words as texts

    @property
    def count(self) -> int:
        """Return how many spans it has."""
        return len(self.table)

    @property
    def nbytes(self) -> int:
        """Return how much memory it takes."""
        return len(self.texts) + sum(records.nbytes for records in self._records())

    @property
    def trace_id(self) -> NDArray[np.uint64]:
        """(n, 2): the high and the low half."""
        return np.stack([self.table["trace_high"], self.table["trace_low"]], axis=1)

    @property
    def rooted(self) -> NDArray[np.bool_]:
        """(n,): it has no parent, or is of kind SERVER."""
        rooted: NDArray[np.bool_] = (self.table["parent_id"] == 0) | (
            self.table["kind"] == _SERVER
        )
        return rooted

    def _records(self) -> tuple[Records, ...]:
        return (
            self.words, self.pairs, self.table, self.events, self.links, self.resources,
            self.scopes,
        )  # fmt: skip

    def packed(self) -> bytes:
        """All of it as bytes, for `unpacked`."""
        head = _HEAD.pack(_MAGIC, self.rejected, len(self.texts), *map(len, self._records()))
        return b"".join((head, *(one.tobytes() for one in self._records()), self.texts))

    def word(self, number: int) -> str:
        """A word as a text."""
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = self.word_bytes(number).decode()
        return known

    def word_bytes(self, number: int) -> bytes:
        """A word's bytes."""
        at, size, _ = self.words[number].item()
        return self.texts[at : at + size]

    def spans(self, rows: Iterable[int] | None = None) -> list[Span]:
        """Whole spans, as the store gives them back, in the order of their rows."""
        chosen = self.table if rows is None else self.table[np.fromiter(rows, np.int64)]
        return list(map(self._span, chosen.tolist()))

    def span(self, row: int) -> Span:
        """The whole span of one row."""
        return self._span(self.table[row].item())

    def _span(self, row: tuple[int, ...]) -> Span:
        (
            trace_high, trace_low, span_id, parent_id, start_ns, end_ns, pairs, pair_count,
            events, event_count, links, link_count, name, state, _, resource, scope, removed, _,
            kind, status,
        ) = row  # fmt: skip
        _, _, service, instance, version, host = self.resources[resource].item()
        word = self.word
        return Span(
            trace_id=f"{trace_high:016x}{trace_low:016x}",
            span_id=f"{span_id:016x}",
            parent_id=f"{parent_id:016x}" if parent_id else None,
            name=word(name),
            kind=KINDS[kind],
            service=word(service),
            instance=word(instance) or None,
            host=word(host) or None,
            version=word(version) or None,
            scope=word(self.scopes[scope]["name"]),
            start_ns=start_ns,
            end_ns=end_ns,
            status=STATUSES[status],
            attributes=self.attributes(pairs, pair_count),
            events=tuple(map(self._event, self.events[events : events + event_count].tolist()))
            if event_count
            else (),
            links=tuple(map(self._link, self.links[links : links + link_count].tolist()))
            if link_count
            else (),
            content_removed=removed,
            trace_state=word(state),
        )

    def _event(self, row: tuple[int, ...]) -> Event:
        time_ns, name, pairs, pair_count, _ = row
        return Event(
            time_ns=time_ns, name=self.word(name), attributes=self.attributes(pairs, pair_count)
        )

    def _link(self, row: tuple[int, ...]) -> Link:
        trace, span, _, pairs, pair_count, _ = row
        return Link(
            trace_id=self.word_bytes(trace).hex(),
            span_id=self.word_bytes(span).hex(),
            attributes=self.attributes(pairs, pair_count),
        )

    def attributes(self, first: int, count: int) -> Attributes:
        """Attributes with their types; of a key that comes twice, the last value."""
        texts = self.texts
        return {
            self.word(key): texts[value : value + size].decode()
            if form == Form.STRING
            else VALUES[form](value, texts[value : value + size])
            for value, size, key, form, _ in self.pairs[first : first + count].tolist()
        }


VALUES: Final[Sequence[Callable[[int, bytes], AttributeValue]]] = (
    lambda _, __: None,
    lambda _, text: text.decode(),
    lambda value, _: bool(value),
    lambda value, _: value,
    lambda value, _: double_of(value),
    lambda _, text: from_array(ArrayValue.FromString(text)),
    lambda _, text: from_map(KeyValueList.FromString(text)),
    lambda _, text: text,
)
"""By form: an attribute's value, of its number and its text."""
HAS_TEXT: Final = frozenset({Form.STRING, Form.ARRAY, Form.MAP, Form.BYTES})
_IS_TEXT: Final = np.array([form in HAS_TEXT for form in range(max(Form) + 1)], np.int64)


def ranges(first: NDArray[np.integer], count: NDArray[np.int32]) -> Numbers:
    """The numbers from each first one, so many."""
    ends = np.cumsum(count, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(first - (ends - count), count) + np.arange(total)


def taken(records: Records, rows: Numbers) -> Records:
    """Some records; faster than an index, for it knows nothing of their fields."""
    numbers = records.view(np.int64).reshape(len(records), records.itemsize // 8)
    chosen: Records = numbers.take(rows, axis=0).view(records.dtype).ravel()
    return chosen


def chained(records: Sequence[Records]) -> Records:
    """Records of one kind, one array behind the other; fast for the same reason."""
    numbers = np.concatenate([one.view(np.int64) for one in records])
    return numbers.view(records[0].dtype)


def joined(blocks: Sequence[SpanBlock]) -> SpanBlock:
    """The spans of several blocks, in their order; one of a few spans is costly to insert."""
    if len(blocks) == 1:
        return blocks[0]
    parts = {name: [getattr(block, name) for block in blocks] for name in _REFERENCES}
    sizes = {name: np.array(list(map(len, each)), np.int64) for name, each in parts.items()}
    sizes["texts"] = np.array([len(block.texts) for block in blocks])
    before = {name: np.cumsum(each) - each for name, each in sizes.items()}
    found = {name: chained(each) for name, each in parts.items()}
    for name, references in _REFERENCES.items():
        for column, target in references.items():
            found[name][column] += np.repeat(before[target], sizes[name]).astype(
                found[name].dtype[column]
            )
    pairs = found["pairs"]
    pairs["value"] += np.repeat(before["texts"], sizes["pairs"]) * _IS_TEXT[pairs["form"]]
    return SpanBlock(
        texts=b"".join(block.texts for block in blocks),
        rejected=sum(block.rejected for block in blocks),
        **found,
    )


_REFERENCES: Final[Mapping[str, Mapping[str, str]]] = {
    "words": {"at": "texts"},
    "pairs": {"key": "words"},
    "table": {
        **dict.fromkeys(("name", "state", "message"), "words"),
        "pairs": "pairs",
        "events": "events",
        "links": "links",
        "resource": "resources",
        "scope": "scopes",
    },
    "events": {"name": "words", "pairs": "pairs"},
    "links": {**dict.fromkeys(("trace", "span", "state"), "words"), "pairs": "pairs"},
    "resources": {
        **dict.fromkeys(("service", "instance", "version", "host"), "words"),
        "pairs": "pairs",
    },
    "scopes": dict.fromkeys(("name", "version"), "words"),
}
"""By kind of record: which columns refer to which other kind."""


_MAGIC: Final = b"\xf1columns1"  # no protobuf of ours begins so; another layout has another one
_HEAD: Final = Struct(f"<{len(_MAGIC)}s{2 + len(_REFERENCES)}q")
_KINDS_OF_RECORDS: Final = {
    "words": WORD, "pairs": PAIR, "table": SPAN, "events": EVENT, "links": LINK,
    "resources": RESOURCE, "scopes": SCOPE,
}  # fmt: skip


def is_packed(data: bytes) -> bool:
    """Return whether bytes begin as `SpanBlock.packed` writes them."""
    return data.startswith(_MAGIC)


def unpacked(data: bytes) -> SpanBlock:
    """A block from what `SpanBlock.packed` made of it, perhaps in another process.

    Args:
        data: It is whole: its checksum was looked at.

    Raises:
        ValueError: The bytes are not a packed block.
    """
    if len(data) < _HEAD.size or not data.startswith(_MAGIC):
        raise ValueError("these bytes are no columns of spans")
    _, rejected, text_bytes, *counts = _HEAD.unpack_from(data)
    at = _HEAD.size
    found: dict[str, Records] = {}
    for (name, kind), count in zip(_KINDS_OF_RECORDS.items(), counts, strict=True):
        found[name] = np.frombuffer(data, kind, count, at).copy()
        at += found[name].nbytes
    if at + text_bytes != len(data):
        raise ValueError(f"{len(data)} bytes of columns should be {at + text_bytes}")
    found["table"]["shape"] = NOT_SHAPED  # numbers are those of a process
    return SpanBlock(texts=data[at:], rejected=rejected, **found)
