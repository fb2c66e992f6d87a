"""The wire format of OTLP traces, read into columns by compiled code.

Importing this module needs numba, and compiles at the first call or reads what was compiled from
disk (see `loading`). 0.7 µs of CPU a span of nine attributes (`tests/benchmarks/bench_ingest.py`).

Every length is held against the end of what it is in. What is odd, though protobuf allows it, is
not decided here: the result is `ODD`, and the plain way takes the whole request. All numbers are
signed, so that no operation mixes signs; what is hashed wraps.
"""

# mypy: ignore-errors
# To mypy the compiler's numbers are no ints.
# ruff: noqa: ANN401, C901, FBT001, FBT003, PLR0911, PLR0912, PLR0913, PLR0915, PLR0917, PLR1714
# ruff: noqa: PLR2004, SIM110 - tags and bytes, in the form that the compiler takes
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ODD = -1
SPANS, PAIRS, EVENTS, LINKS, RESOURCES, SCOPES, WORDS, REJECTED, NESTED = range(9)
COUNTERS = 9

VERIFIED = 1  # a word is UTF-8

_MULTIPLIER = 0x1CE4E5B9BF58476D
_SECOND_MULTIPLIER = 0x133111EB94D049BB
_HIGH_BITS = -0x7F7F7F7F7F7F7F80  # the highest of each of eight bytes
_LOW_32 = 0xFFFFFFFF


class Tables(NamedTuple):
    """What is filled: records (see `span_block`), and the hash table of the words."""

    words: Array
    hashes: Array  # by word
    slots: Array  # words by hash; 0: free
    pairs: Array
    spans: Array
    events: Array
    links: Array
    resources: Array
    scopes: Array
    counts: Array


_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


# Numbers and texts


@_compiled
def _eight_bytes(data: Array, at: int) -> int:
    return (
        np.int64(data[at])
        | np.int64(data[at + 1]) << 8
        | np.int64(data[at + 2]) << 16
        | np.int64(data[at + 3]) << 24
        | np.int64(data[at + 4]) << 32
        | np.int64(data[at + 5]) << 40
        | np.int64(data[at + 6]) << 48
        | np.int64(data[at + 7]) << 56
    )


@_compiled
def _varint(data: Array, at: int, end: int) -> tuple[int, int]:
    """A number, and where it ends; `ODD`: it does not."""
    value = np.int64(0)
    for shift in range(0, 70, 7):
        if at >= end:
            return np.int64(0), np.int64(ODD)
        byte = np.int64(data[at])
        at += 1
        if shift == 63 and byte > 1:
            break
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return np.int64(0), np.int64(ODD)


@_compiled
def _sized(data: Array, at: int, end: int) -> tuple[int, int]:
    """A length, and where what is so long begins; `ODD`: it is longer than there is."""
    if at < end and data[at] < 0x80:
        size = np.int64(data[at])
        at += 1
    else:
        size, at = _varint(data, at, end)
    if at < 0 or size < 0 or size > end - at:
        return np.int64(0), np.int64(ODD)
    return size, at


@_compiled
def _tag(data: Array, at: int, end: int) -> tuple[int, int]:
    """A field's number and wire type, in two bytes at most."""
    tag = np.int64(data[at])
    at += 1
    if tag >= 0x80:
        if at >= end or data[at] >= 0x80:
            return np.int64(0), np.int64(ODD)
        tag = (tag & 0x7F) | np.int64(data[at]) << 7
        at += 1
    if tag < 8:  # there is no field 0
        return np.int64(0), np.int64(ODD)
    return tag, at


@_compiled
def _skipped(data: Array, at: int, end: int, wire: int) -> int:
    """Where a field ends that nobody reads."""
    if wire == 0:
        _, at = _varint(data, at, end)
    elif wire == 2:
        size, at = _sized(data, at, end)
        if at >= 0:
            at += size
    elif wire == 1:
        at += 8
    elif wire == 5:
        at += 4
    else:
        at = np.int64(ODD)
    return at if at <= end else np.int64(ODD)


@_compiled
def _is_ascii(data: Array, at: int, size: int) -> bool:
    end = at + size
    high = np.int64(0)
    while at + 8 <= end:
        high |= _eight_bytes(data, at)
        at += 8
    while at < end:
        high |= np.int64(data[at])
        at += 1
    return (high & _HIGH_BITS) == 0


@_compiled
def _is_utf8(data: Array, at: int, size: int) -> bool:
    end = at + size
    while at < end:
        byte = data[at]
        at += 1
        if byte < 0x80:
            continue
        if byte < 0xC2 or byte > 0xF4:
            return False
        more = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
        if more > end - at:
            return False
        second = data[at]
        if (second & 0xC0) != 0x80:
            return False
        # Longer than need be, half of a pair, or beyond the last character.
        if byte == 0xE0 and second < 0xA0:
            return False
        if byte == 0xED and second > 0x9F:
            return False
        if byte == 0xF0 and second < 0x90:
            return False
        if byte == 0xF4 and second > 0x8F:
            return False
        for _ in range(more - 1):
            at += 1
            if (data[at] & 0xC0) != 0x80:
                return False
        at += 1
    return True


@_compiled
def _is_text(data: Array, at: int, size: int) -> bool:
    return _is_ascii(data, at, size) or _is_utf8(data, at, size)


@_compiled
def mixed(state: int, value: int) -> int:
    """A hash that a number was added to."""
    state = (state ^ value) * _MULTIPLIER
    return state ^ (state >> 32 & _LOW_32)


@_compiled
def text_hash(data: Array, at: int, size: int, seed: int) -> int:
    """The hash of a text."""
    state = mixed(seed, size)
    end = at + size
    while at + 8 <= end:
        state = mixed(state, _eight_bytes(data, at))
        at += 8
    rest = np.int64(0)
    while at < end:
        rest = rest << 8 | np.int64(data[at])
        at += 1
    return mixed(state, rest) * _SECOND_MULTIPLIER


@_compiled
def _same(data: Array, one: int, other: int, size: int) -> bool:
    for place in range(size):
        if data[one + place] != data[other + place]:
            return False
    return True


@_compiled
def _word(data: Array, at: int, size: int, is_text: bool, to: Tables, seed: int) -> int:
    """A word's number; `ODD`: there are too many, or it is no text."""
    if size == 0:
        return np.int64(0)
    found = text_hash(data, at, size, seed)
    place = (found >> 20) & (len(to.slots) - 1)
    number = np.int64(to.slots[place])
    while number != 0:
        known = to.words[number]
        if to.hashes[number] == found and known.size == size and _same(data, known.at, at, size):
            break
        place = (place + 1) & (len(to.slots) - 1)
        number = np.int64(to.slots[place])
    if number == 0:
        number = to.counts[WORDS]
        if number >= len(to.words):
            return np.int64(ODD)
        to.counts[WORDS] = number + 1
        to.slots[place] = number
        to.hashes[number] = found
        to.words[number].at = at
        to.words[number].size = size
        to.words[number].code = 0
    if is_text and to.words[number].code != VERIFIED:
        if not _is_text(data, at, size):
            return np.int64(ODD)
        to.words[number].code = VERIFIED
    return number


# Messages. Each function reads one that lies from `at` to `end`, and gives a number that is
# `ODD` where it cannot.


@_compiled
def _pair(data: Array, at: int, end: int, to: Tables, seed: int) -> int:
    """An attribute."""
    number = to.counts[PAIRS]
    if number >= len(to.pairs):
        return np.int64(ODD)
    key_size = np.int64(0)
    key_at = value_at = value_end = np.int64(ODD)
    while at < end:
        tag = data[at]
        size, at = _sized(data, at + 1, end)
        if at < 0:
            return np.int64(ODD)
        if tag == 0x0A and key_at < 0:
            key_at, key_size = at, size
        elif tag == 0x12 and value_at < 0:
            value_at, value_end = at, at + size
        else:
            return np.int64(ODD)
        at += size
    key = _word(data, key_at, key_size, True, to, seed)
    if key < 0:
        return np.int64(ODD)
    row = to.pairs[number]
    row.key = key
    row.value = 0
    row.size = 0
    row.form = 0
    row.unused = 0
    to.counts[PAIRS] = number + 1
    return _value(data, value_at, value_end, row, to) if value_at < value_end else np.int64(0)


@_compiled
def _value(data: Array, at: int, end: int, row: Any, to: Tables) -> int:
    """An attribute's value: one field."""
    tag = data[at]
    at += 1
    form = np.int64(tag >> 3)
    value = size = np.int64(0)
    if tag == 0x0A or tag == 0x2A or tag == 0x32 or tag == 0x3A:
        size, value = _sized(data, at, end)
        at = value + size
        if value < 0 or (tag == 0x0A and not _is_text(data, value, size)):
            return np.int64(ODD)
        if tag == 0x2A or tag == 0x32:
            to.counts[NESTED] += 1
    elif tag == 0x10 or tag == 0x18:
        value, at = _varint(data, at, end)
        if tag == 0x10 and value != 0:
            value = np.int64(1)
    elif tag == 0x21 and end - at == 8:
        value = _eight_bytes(data, at)
        at = end
    else:
        return np.int64(ODD)
    row.form = form
    row.value = value
    row.size = size
    return np.int64(0) if at == end else np.int64(ODD)


@_compiled
def _event(data: Array, at: int, end: int, to: Tables, seed: int) -> int:
    number = to.counts[EVENTS]
    if number >= len(to.events):
        return np.int64(ODD)
    to.counts[EVENTS] = number + 1
    first = to.counts[PAIRS]
    time_ns = name = np.int64(0)
    while at < end:
        tag, at = _tag(data, at, end)
        if at < 0:
            return np.int64(ODD)
        if tag == 0x12 or tag == 0x1A:
            size, at = _sized(data, at, end)
            if at < 0:
                return np.int64(ODD)
            if tag == 0x12:
                name = _word(data, at, size, True, to, seed)
                if name < 0:
                    return np.int64(ODD)
            elif _pair(data, at, at + size, to, seed) < 0:
                return np.int64(ODD)
            at += size
        else:
            before = at
            at = _skipped(data, at, end, tag & 7)
            if at < 0:
                return np.int64(ODD)
            if tag == 0x09:
                time_ns = _eight_bytes(data, before)
    row = to.events[number]
    row.time_ns = time_ns
    row.name = name
    row.pairs = first
    row.pair_count = to.counts[PAIRS] - first
    row.unused = 0
    return np.int64(0)


@_compiled
def _link(data: Array, at: int, end: int, to: Tables, seed: int) -> int:
    number = to.counts[LINKS]
    if number >= len(to.links):
        return np.int64(ODD)
    to.counts[LINKS] = number + 1
    first = to.counts[PAIRS]
    trace = span = state = np.int64(0)
    while at < end:
        tag, at = _tag(data, at, end)
        if at < 0:
            return np.int64(ODD)
        if tag & 7 != 2:
            at = _skipped(data, at, end, tag & 7)
            if at < 0:
                return np.int64(ODD)
            continue
        size, at = _sized(data, at, end)
        if at < 0:
            return np.int64(ODD)
        done = np.int64(0)
        if tag == 0x0A:
            done = trace = _word(data, at, size, False, to, seed)
        elif tag == 0x12:
            done = span = _word(data, at, size, False, to, seed)
        elif tag == 0x1A:
            done = state = _word(data, at, size, True, to, seed)
        elif tag == 0x22:
            done = _pair(data, at, at + size, to, seed)
        if done < 0:
            return np.int64(ODD)
        at += size
    row = to.links[number]
    row.trace = trace
    row.span = span
    row.state = state
    row.pairs = first
    row.pair_count = to.counts[PAIRS] - first
    return np.int64(0)


@_compiled
def _lists(data: Array, at: int, end: int, to: Tables, seed: int) -> int:
    """The events and links of a span whose fields were all looked at before."""
    while at < end:
        tag, at = _tag(data, at, end)
        if tag == 0x5A or tag == 0x6A:
            size, at = _sized(data, at, end)
            if tag == 0x5A:
                done = _event(data, at, at + size, to, seed)
            else:
                done = _link(data, at, at + size, to, seed)
            if done < 0:
                return np.int64(ODD)
            at += size
        else:
            at = _skipped(data, at, end, tag & 7)
    return np.int64(0)


@_compiled
def _status(data: Array, at: int, end: int, row: Any, to: Tables, seed: int) -> int:
    while at < end:
        tag, at = _tag(data, at, end)
        if at < 0:
            return np.int64(ODD)
        if tag == 0x12:
            size, at = _sized(data, at, end)
            if at < 0:
                return np.int64(ODD)
            message = _word(data, at, size, True, to, seed)
            if message < 0:
                return np.int64(ODD)
            row.message = message
            at += size
        elif tag == 0x18:
            code, at = _varint(data, at, end)
            code &= _LOW_32
            row.status = code if code <= 2 else 0
        else:
            at = _skipped(data, at, end, tag & 7)
        if at < 0:
            return np.int64(ODD)
    return np.int64(0)


@_compiled
def _is_zero(data: Array, at: int, size: int) -> bool:
    for place in range(at, at + size):
        if data[place] != 0:
            return False
    return True


@_compiled
def _number_of(data: Array, at: int) -> int:
    """Eight bytes, the highest first."""
    value = np.int64(0)
    for place in range(at, at + 8):
        value = value << 8 | np.int64(data[place])
    return value


@_compiled
def _texts_of_span(
    data: Array, at: int, size: int, tag: int, row: Any, to: Tables, seed: int
) -> int:
    """A field of a span that is no id and no list."""
    if tag == 0x2A:
        done = _word(data, at, size, True, to, seed)
        row.name = done
    elif tag == 0x1A:
        done = _word(data, at, size, True, to, seed)
        row.state = done
    elif tag == 0x7A:
        done = _status(data, at, at + size, row, to, seed)
    else:
        done = np.int64(0)
    return done


@_compiled
def _span(data: Array, at: int, end: int, to: Tables, seed: int) -> int:
    number = to.counts[SPANS]
    if number >= len(to.spans):
        return np.int64(ODD)
    row = to.spans[number]
    row.pairs = first = to.counts[PAIRS]
    row.start_ns = row.end_ns = row.parent_id = 0
    row.name = row.state = row.message = row.kind = row.status = row.removed = 0
    trace_at = span_at = np.int64(ODD)
    lists = 0
    start = at
    while at < end:
        tag, at = _tag(data, at, end)
        if at < 0:
            return np.int64(ODD)
        if tag & 7 == 2:
            size, at = _sized(data, at, end)
            if at < 0:
                return np.int64(ODD)
            if tag == 0x4A:
                if _pair(data, at, at + size, to, seed) < 0:
                    return np.int64(ODD)
            elif tag == 0x0A:
                trace_at = at if size == 16 and not _is_zero(data, at, 16) else np.int64(ODD)
            elif tag == 0x12:
                span_at = at if size == 8 and not _is_zero(data, at, 8) else np.int64(ODD)
            elif tag == 0x22:
                row.parent_id = _number_of(data, at) if size == 8 else np.int64(0)
            elif tag == 0x5A or tag == 0x6A:
                lists += 1
            elif _texts_of_span(data, at, size, tag, row, to, seed) < 0:
                return np.int64(ODD)
            at += size
        elif tag == 0x30:
            kind, at = _varint(data, at, end)
            kind &= _LOW_32
            row.kind = kind if kind <= 5 else 0
        else:
            before = at
            at = _skipped(data, at, end, tag & 7)
            if at >= 0 and tag == 0x39:
                row.start_ns = _eight_bytes(data, before)
            elif at >= 0 and tag == 0x41:
                row.end_ns = _eight_bytes(data, before)
        if at < 0:
            return np.int64(ODD)
    row.pair_count = to.counts[PAIRS] - first
    row.events = to.counts[EVENTS]
    row.links = to.counts[LINKS]
    row.event_count = row.link_count = 0
    if lists:
        if _lists(data, start, end, to, seed) < 0:
            return np.int64(ODD)
        row.event_count = to.counts[EVENTS] - row.events
        row.link_count = to.counts[LINKS] - row.links
    if trace_at < 0 or span_at < 0:
        to.counts[REJECTED] += 1
        to.counts[PAIRS] = first
        to.counts[EVENTS] = row.events
        to.counts[LINKS] = row.links
        return np.int64(0)
    row.trace_high = _number_of(data, trace_at)
    row.trace_low = _number_of(data, trace_at + 8)
    row.span_id = _number_of(data, span_at)
    row.resource = to.counts[RESOURCES] - 1
    row.scope = to.counts[SCOPES] - 1
    to.counts[SPANS] = number + 1
    return np.int64(0)


@_compiled
def _scope(data: Array, at: int, end: int, to: Tables, seed: int) -> int:
    """An instrumentation scope: its attributes are read, and dropped."""
    row = to.scopes[to.counts[SCOPES] - 1]
    while at < end:
        tag, at = _tag(data, at, end)
        if at < 0:
            return np.int64(ODD)
        if tag & 7 != 2:
            at = _skipped(data, at, end, tag & 7)
            if at < 0:
                return np.int64(ODD)
            continue
        size, at = _sized(data, at, end)
        if at < 0:
            return np.int64(ODD)
        done = np.int64(0)
        if tag == 0x0A:
            done = _word(data, at, size, True, to, seed)
            row.name = done
        elif tag == 0x12:
            done = _word(data, at, size, True, to, seed)
            row.version = done
        elif tag == 0x1A:
            nested = to.counts[NESTED]
            done = _pair(data, at, at + size, to, seed)
            if done < 0 or to.counts[NESTED] != nested:
                return np.int64(ODD)
            to.counts[PAIRS] -= 1
        if done < 0:
            return np.int64(ODD)
        at += size
    return np.int64(0)


@_compiled
def _scope_spans(data: Array, at: int, end: int, to: Tables, seed: int) -> int:
    number = to.counts[SCOPES]
    if number >= len(to.scopes):
        return np.int64(ODD)
    to.counts[SCOPES] = number + 1
    to.scopes[number].name = 0
    to.scopes[number].version = 0
    while at < end:
        tag, at = _tag(data, at, end)
        if at < 0:
            return np.int64(ODD)
        if tag & 7 != 2:
            at = _skipped(data, at, end, tag & 7)
            if at < 0:
                return np.int64(ODD)
            continue
        size, at = _sized(data, at, end)
        if at < 0:
            return np.int64(ODD)
        done = np.int64(0)
        if tag == 0x12:
            done = _span(data, at, at + size, to, seed)
        elif tag == 0x0A:
            done = _scope(data, at, at + size, to, seed)
        elif tag == 0x1A and not _is_text(data, at, size):  # where its schema is described
            done = np.int64(ODD)
        if done < 0:
            return np.int64(ODD)
        at += size
    return np.int64(0)


@_compiled
def _resource(data: Array, at: int, end: int, to: Tables, seed: int) -> int:
    row = to.resources[to.counts[RESOURCES] - 1]
    if row.pair_count:  # its attributes would not lie together
        return np.int64(ODD)
    row.pairs = to.counts[PAIRS]
    while at < end:
        tag, at = _tag(data, at, end)
        if at < 0 or tag == 0x1A:  # entities
            return np.int64(ODD)
        if tag != 0x0A:
            at = _skipped(data, at, end, tag & 7)
            if at < 0:
                return np.int64(ODD)
            continue
        size, at = _sized(data, at, end)
        if at < 0 or _pair(data, at, at + size, to, seed) < 0:
            return np.int64(ODD)
        at += size
    row.pair_count = to.counts[PAIRS] - row.pairs
    return np.int64(0)


@_compiled
def _resource_spans(data: Array, at: int, end: int, to: Tables, seed: int) -> int:
    number = to.counts[RESOURCES]
    if number >= len(to.resources):
        return np.int64(ODD)
    to.counts[RESOURCES] = number + 1
    to.resources[number].pairs = to.counts[PAIRS]
    to.resources[number].pair_count = 0
    while at < end:
        tag, at = _tag(data, at, end)
        if at < 0:
            return np.int64(ODD)
        if tag & 7 != 2:
            at = _skipped(data, at, end, tag & 7)
            if at < 0:
                return np.int64(ODD)
            continue
        size, at = _sized(data, at, end)
        if at < 0:
            return np.int64(ODD)
        done = np.int64(0)
        if tag == 0x12:
            done = _scope_spans(data, at, at + size, to, seed)
        elif tag == 0x0A:
            done = _resource(data, at, at + size, to, seed)
        elif tag == 0x1A and not _is_text(data, at, size):
            done = np.int64(ODD)
        if done < 0:
            return np.int64(ODD)
        at += size
    return np.int64(0)


@_compiled
def scan(data: Array, to: Tables, seed: int) -> int:
    """Fill the tables with a request; `ODD`: it is for the plain way."""
    at, end = np.int64(0), np.int64(len(data))
    to.counts[WORDS] = 1
    while at < end:
        tag, at = _tag(data, at, end)
        if at < 0:
            return np.int64(ODD)
        if tag != 0x0A:
            at = _skipped(data, at, end, tag & 7)
            if at < 0:
                return np.int64(ODD)
            continue
        size, at = _sized(data, at, end)
        if at < 0 or _resource_spans(data, at, at + size, to, seed) < 0:
            return np.int64(ODD)
        at += size
    return np.int64(0)
