"""Whole traces as a batch for the analysis, out of the columns of posts: arrays only.

0.5 µs of CPU a span (`tests/benchmarks/bench_ingest.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.common.v1.common_pb2 import ArrayValue

from latencytrace.analysis.calls.retries import METHODS, TARGETS
from latencytrace.analysis.columns.facts import as_json
from latencytrace.analysis.columns.keys import COUNTS, KEYS, PACKED, having
from latencytrace.analysis.tail.cohort_attributes import LEFT_OUT
from latencytrace.model import AttributeValue
from latencytrace.model.cohorts.breakdown import attribute_text
from latencytrace.model.span_batch import EMPTY, CarriedValues, Resource, SpanBatch
from latencytrace.service.otlp.compiled.core import core
from latencytrace.service.otlp.shapes import MARK, SEED, SHAPES
from latencytrace.service.otlp.span_block import (
    PAIR,
    VALUES,
    Numbers,
    Records,
    SpanBlock,
    chained,
    ranges,
    taken,
)
from latencytrace.service.otlp.values import Form, double_of, from_array

Part = tuple[SpanBlock, Numbers]

_ID_DIGITS: Final = 32
_MOST_TEXT_BYTES: Final = 2 + 4 * 128  # of the text of an attribute, with its length
_SHOWN: Final = ~having(LEFT_OUT)
_TARGETS: Final = having(frozenset({*TARGETS, *METHODS}))
_IN_COLUMNS: Final = (Form.STRING, Form.INT, Form.DOUBLE, Form.MAP, Form.BYTES)
_COMMA: Final = ord(",")


def batch_of(parts: Sequence[Part]) -> SpanBatch:
    """The spans of some rows of some blocks, ordered by trace, then as they come."""
    shapes = SHAPES.latest
    for block, _ in parts:
        shapes.find_anew(block)
    tables = [taken(block.table, rows) for block, rows in parts]
    spans = chained(tables)
    order = np.lexsort((spans["trace_low"], spans["trace_high"]))
    part = np.repeat(np.arange(len(parts)), [len(table) for table in tables])
    row = np.concatenate([rows for _, rows in parts])
    pairs = _Pairs([block for block, _ in parts], tables, part, order)
    name, target = pairs.names_and_targets(spans)
    spans, part, row = taken(spans, order), part[order], row[order]
    resource, resources = _resources(parts, part, spans["resource"])
    trace_ids, first = _traces(spans)
    return SpanBatch(
        trace_ids=trace_ids,
        first=first,
        span_id=np.ascontiguousarray(spans["span_id"]),
        parent_id=np.ascontiguousarray(spans["parent_id"]),
        start_ns=_times(spans["start_ns"]),
        end_ns=_times(spans["end_ns"]),
        shape=np.ascontiguousarray(spans["shape"]),
        shapes=shapes.spans,
        first_shape=shapes.first,
        resource=resource,
        resources=resources,
        name=name,
        counts=pairs.counts(),
        packed=pairs.packed(),
        carried=pairs.carried(),
        target=target,
        name_of=_words(parts, part, spans["name"]),
        span=lambda at: parts[part[at]][0].span(int(row[at])),
        stated=np.flatnonzero(spans["state"]),
        trace_state=_words(parts, part, spans["state"]),
    )


def _words(parts: Sequence[Part], part: Numbers, words: NDArray[np.int32]) -> Callable[[int], str]:
    return lambda at: parts[part[at]][0].word(int(words[at]))


def _resources(
    parts: Sequence[Part], part: Numbers, number: NDArray[np.int32]
) -> tuple[Numbers, list[Resource]]:
    """The resources of spans; of each its place among them."""
    numbers = part << 32 | number
    distinct, which = np.unique(numbers, return_inverse=True)
    places: dict[Resource, int] = {}
    known: dict[tuple[int, ...], int] = {}  # by the number of the block, and the words
    found = []
    for one in distinct.tolist():
        block = parts[one >> 32][0]
        words = block.resources[one & 0xFFFF_FFFF].item()[2:]
        place = known.get((one >> 32, *words))
        if place is None:
            service, instance, version, host = map(block.word, words)
            resource = Resource(service, instance or None, host or None, version or None)
            place = places.setdefault(resource, len(places))
            known[one >> 32, *words] = place
        found.append(place)
    return np.array(found, np.int64)[which], list(places)


def _traces(spans: Records) -> tuple[Sequence[str], Numbers]:
    """The ids of traces, and where each begins."""
    ids = np.stack([spans["trace_high"], spans["trace_low"]], axis=1)
    is_new = np.ones(len(ids), np.bool_)
    is_new[1:] = np.any(ids[1:] != ids[:-1], axis=1)
    digits = ids[is_new].astype(">u8").tobytes().hex()
    names = [digits[at : at + _ID_DIGITS] for at in range(0, len(digits), _ID_DIGITS)]
    return names, np.append(np.flatnonzero(is_new), len(ids))


def _times(times_ns: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Times; -1 where they do not fit."""
    signed: NDArray[np.int64] = times_ns.astype(np.int64)
    return np.where(signed < 0, np.int64(-1), signed)


class _Pairs:
    """The attributes of spans, block by block.

    Args:
        part: Of each span the number of its block.
        order: The spans as the batch has them.
    """

    def __init__(
        self,
        blocks: Sequence[SpanBlock],
        tables: Sequence[Records],
        part: Numbers,
        order: Numbers,
    ) -> None:
        self._blocks = blocks
        self._span_part = part
        self._order = order
        counts = np.concatenate([table["pair_count"] for table in tables]).astype(np.int64)
        self._begin = np.cumsum(counts) - counts
        self._count = counts
        self._owner = np.repeat(np.arange(len(counts)), counts)
        self._part = part[self._owner]
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self._row = place[self._owner]
        found, codes = [], []
        for block, table in zip(blocks, tables, strict=True):
            found.append(taken(block.pairs, ranges(table["pairs"], table["pair_count"])))
            codes.append(block.words["code"][found[-1]["key"]])
        self._pairs = chained(found)
        self._code: NDArray[np.int32] = np.concatenate(codes)
        self._texts: tuple[bytes, ...] = tuple(block.texts for block in blocks)
        self._words = tuple(block.words for block in blocks)
        self._tell()

    def counts(self) -> Mapping[str, tuple[Numbers, Numbers]]:
        """Whole numbers by key."""
        found = {}
        is_int = self._pairs["form"] == Form.INT
        for key, places in self._of_keys(COUNTS):
            chosen = places[is_int[places]]
            if len(chosen):
                rows, order = self._in_order(chosen)
                found[key] = (rows, self._pairs["value"][chosen[order]])
        return found

    def packed(self) -> Mapping[str, tuple[Numbers, Sequence[AttributeValue]]]:
        """Texts, bytes and numbers by key."""
        found = {}
        for key, places in self._of_keys(PACKED):
            chosen = places[np.isin(self._pairs["form"][places], _IN_COLUMNS)]
            if len(chosen):
                rows, order = self._in_order(chosen)
                found[key] = (rows, self._values(chosen[order]))
        return found

    def _of_keys(self, keys: frozenset[str]) -> Sequence[tuple[str, Numbers]]:
        """The places of each key."""
        hits = np.flatnonzero(having(keys)[self._code])
        hits = hits[np.argsort(self._code[hits], kind="stable")]
        codes = self._code[hits]
        edges = np.flatnonzero(np.diff(codes)) + 1
        return [
            (KEYS[int(self._code[places[0]])], places)
            for places in np.split(hits, edges)
            if len(places)
        ]

    def _in_order(self, places: Numbers) -> tuple[Numbers, Numbers]:
        rows = self._row[places]
        order = np.argsort(rows, kind="stable")
        return rows[order], order

    def _values(self, places: Numbers) -> Sequence[AttributeValue]:
        chosen = taken(self._pairs, places)
        if np.all(chosen["form"] == Form.DOUBLE):
            doubles: list[float] = chosen["value"].copy().view(np.float64).tolist()
            return doubles
        if np.all(chosen["form"] == Form.INT):
            numbers: list[int] = chosen["value"].tolist()
            return numbers
        return list(map(self._value, places.tolist()))

    def _value(self, place: int) -> AttributeValue:
        at, size, _, form, _ = self._pairs[place].item()
        found: AttributeValue = VALUES[form](at, self._texts[self._part[place]][at : at + size])
        return found

    # The texts that requests show

    def _tell(self) -> None:
        """Number what is shown: fractions, maps and bytes by their texts, each item of a list."""
        forms = self._pairs["form"]
        lists = np.flatnonzero(forms == Form.ARRAY)
        beyond = len(self._texts)
        replaced, texts, items, counts = self._nested()
        self._shown = shown = chained([self._pairs, items])
        self._text_part = np.concatenate((self._part, np.full(len(items), beyond)))
        shown[replaced], self._text_part[replaced] = texts, beyond
        fractions = np.flatnonzero(forms == Form.DOUBLE)
        if len(fractions):
            self._put_fractions(shown, self._text_part, fractions)
        of_list = np.repeat(lists, counts)  # of each item its list
        self._key_part = np.concatenate((self._part, self._part[of_list]))
        self._number, self._items = np.empty((2, len(shown)), np.int64)
        self._target = np.zeros(len(self._count), np.int64)
        core.carry(
            self._texts, self._words, shown, self._key_part, self._text_part,
            np.concatenate((self._owner, self._owner[of_list])), _SHOWN, _TARGETS, MARK, SEED,
            self._number, self._items, self._target,
        )  # fmt: skip
        self._items = self._items[: len(forms)]
        self._item = np.arange(len(forms))
        self._item[lists] = len(forms) + np.cumsum(counts) - counts
        self._items[lists] = np.where(_SHOWN[self._code[lists]], counts, 0)

    def _nested(self) -> tuple[Numbers, Records, Records, Numbers]:
        """Places of maps and bytes, and their texts; the items of lists, how many each has."""
        more, replaced, texts, items, counts = bytearray(), [], [], [], []
        for place in np.flatnonzero(self._pairs["form"] >= Form.ARRAY).tolist():
            at, size, key, form, _ = self._pairs[place].item()
            raw = self._texts[self._part[place]][at : at + size]
            placed = []
            for text in _item_texts(raw) if form == Form.ARRAY else [_text(form, raw)]:
                placed.append((len(more), len(text), key, Form.STRING, 0))
                more += text
            if form == Form.ARRAY:
                items += placed
                counts.append(len(placed))
            else:
                replaced.append(place)
                texts += placed
        self._texts += (bytes(more),)
        numbers = np.array(replaced, np.int64), np.array(counts, np.int64)
        return numbers[0], np.array(texts, PAIR), np.array(items, PAIR), numbers[1]

    def _put_fractions(self, shown: Records, text_part: Numbers, places: Numbers) -> None:
        """Put texts in the place of fractions."""
        fractions = shown["value"][places].view(np.float64)
        json, odd = as_json(fractions)
        if len(odd):
            texts = json.split(b",")
            for place in odd.tolist():
                texts[place] = str(double_of(int(shown["value"][places[place]]))).encode()
            json = b",".join(texts)
        commas = np.flatnonzero(np.frombuffer(json, np.uint8) == _COMMA)
        begins = np.append(0, commas + 1)
        shown["value"][places] = begins
        shown["size"][places] = np.append(commas, len(json)) - begins
        shown["form"][places] = Form.STRING
        text_part[places] = len(self._texts)
        self._texts += (json,)

    def carried(self) -> CarriedValues:
        """The attributes, as requests show them."""
        kind = self._pairs["form"].copy()
        kind[(kind == Form.STRING) & (self._pairs["size"] == 0)] = EMPTY
        return CarriedValues(
            begin=self._begin[self._order],
            count=self._count[self._order],
            row=self._row,
            code=self._code,
            kind=kind,
            number=self._number,
            item=self._item,
            items=self._items,
            keys=self._keys_of,
            texts=self._texts_of,
            value=self._value,
        )

    def _keys_of(self, places: Numbers) -> tuple[Numbers, Sequence[str]]:
        keys = self._key_part[places] << 32 | self._shown["key"][places]
        distinct, which = np.unique(keys, return_inverse=True)
        return which, [
            self._blocks[one >> 32].word(one & 0xFFFF_FFFF) for one in distinct.tolist()
        ]

    def _texts_of(self, places: Numbers) -> tuple[bytes, Numbers]:
        chosen, part = taken(self._shown, places), self._text_part[places]
        sizes = np.empty(len(places), np.int64)
        room = int(np.minimum(chosen["size"], _MOST_TEXT_BYTES).sum()) + 32 * len(places)
        out = np.empty(room, np.uint8)
        written = core.shown_texts(self._texts, (), chosen, part, out, sizes)
        return out[:written].tobytes(), sizes

    def names_and_targets(self, spans: Records) -> tuple[Numbers, Numbers]:
        """Of each span of the batch a number of its name, and of what it calls."""
        name, scope = np.empty(len(spans), np.int64), np.empty(len(spans), np.int64)
        scopes = np.concatenate([block.scopes["name"] for block in self._blocks])
        first = np.cumsum([0, *(len(block.scopes) for block in self._blocks)])
        of_scope = scopes[first[self._span_part] + spans["scope"]].astype(np.int64)
        for words, hashes in ((spans["name"].astype(np.int64), name), (of_scope, scope)):
            core.word_hashes(self._texts, self._words, self._span_part, words, SEED, hashes)
        with np.errstate(over="ignore"):
            target = np.where(self._target == 0, 0, self._target * 3 + name * 5 + scope * 7)
        return name[self._order], target[self._order]


def _text(form: int, raw: bytes) -> bytes:
    return attribute_text(VALUES[form](0, raw)).encode("utf-8", "surrogateescape")


@lru_cache(maxsize=4096)
def _item_texts(raw: bytes) -> Sequence[bytes]:
    """The texts of the items of a list."""
    return [
        attribute_text(one).encode("utf-8", "surrogateescape")
        for one in from_array(ArrayValue.FromString(raw))
    ]
