"""The wire format of OTLP traces, read into columns by compiled code.

Importing this module needs numba, and compiles at the first call or reads what was compiled from
disk (see `loading`). 0.4 µs of CPU a span of nine attributes (`tests/benchmarks/bench_ingest.py`).

Every length is held against the end of what it is in. What is odd, though protobuf allows it, is
not decided here: the result is `ODD`, and the plain way takes the whole request. All numbers are
signed, so that no operation mixes signs; what is hashed wraps.
"""

# mypy: ignore-errors
# To mypy the compiler's numbers are no ints.
# ruff: noqa: ANN401, ARG001, C901, FBT001, FBT003, PLR0911, PLR0912, PLR0913, PLR0917
# ruff: noqa: PLR1714, PLR2004, SIM110 - tags and bytes, in the form that the compiler takes
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

Array = NDArray[Any]

ODD = -1
SPANS, PAIRS, EVENTS, LINKS, RESOURCES, SCOPES, WORDS, REJECTED, NESTED = range(9)

VERIFIED = 1  # a word is UTF-8

_MULTIPLIER = 0x1CE4E5B9BF58476D
_SECOND_MULTIPLIER = 0x133111EB94D049BB
_HIGH_BITS = -0x7F7F7F7F7F7F7F80  # the highest of each of eight bytes
_LOW_32 = 0xFFFFFFFF


# The memory that is filled has numbers of 64 bits alone: what there is of each kind of record,
# then for each kind where its records begin and how many fit, then these. One array for all,
# for a call costs the more the more arrays it hands on.
FIRST = 16  # where the records of a kind begin
MOST = 32  # how many fit
HASHES, SLOTS = 9, 10  # the hashes of words; words by hash, of which 0 is free
MESSAGE, STATUS = 48, 49  # of the span that is read
RECORDS = 64
WIDTHS = (13, 3, 3, 3, 3, 1, 2)  # by kind, SPANS to WORDS


# Nothing is allocated: arrays need no reference counts, which cost a third.
_compiled = numba.njit(nogil=True, cache=True, error_model="numpy", _nrt=False)


# Numbers and texts


def _load(bits: int) -> Any:
    """A function that reads so many bits of an array of bytes, the lowest first.

    The caller has looked whether they are within the array. (An index of the compiler's own may
    be negative, which costs two operations a byte.)
    """

    @intrinsic
    def load(_: Any, data: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            number = ir.IntType(bits)
            place = builder.gep(array.data, [arguments[1]])
            found = builder.load(builder.bitcast(place, number.as_pointer()), align=1)
            return builder.zext(found, ir.IntType(64)) if bits < 64 else found

        return types.int64(data, types.int64), generate

    return load


_byte = _load(8)
_eight_bytes = _load(64)


@_compiled
def _varint(data: Array, at: int, end: int) -> tuple[int, int]:
    """A number, and where it ends; `ODD`: it does not."""
    value = np.int64(0)
    for shift in range(0, 70, 7):
        if at >= end:
            return np.int64(0), np.int64(ODD)
        byte = _byte(data, at)
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
    if at < end and _byte(data, at) < 0x80:
        size = _byte(data, at)
        at += 1
    else:
        size, at = _varint(data, at, end)
    if at < 0 or size < 0 or size > end - at:
        return np.int64(0), np.int64(ODD)
    return size, at


@_compiled
def _tag(data: Array, at: int, end: int) -> tuple[int, int]:
    """A field's number and wire type, in two bytes at most."""
    tag = _byte(data, at)
    at += 1
    if tag >= 0x80:
        if at >= end or _byte(data, at) >= 0x80:
            return np.int64(0), np.int64(ODD)
        tag = (tag & 0x7F) | _byte(data, at) << 7
        at += 1
    if tag < 8:  # there is no field 0
        return np.int64(0), np.int64(ODD)
    return tag, at


@_compiled
def _skipped(data: Array, at: int, end: int, wire: int) -> int:
    """Return where a field ends that nobody reads."""
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
def _next(data: Array, at: int, end: int) -> tuple[int, int, int]:
    """The next field that has a length: its tag, where it begins, its length.

    The tag is 0 where none follows, and `ODD` where it cannot be read.
    """
    while at < end:
        tag, at = _tag(data, at, end)
        if at < 0:
            break
        if tag & 7 == 2:
            size, at = _sized(data, at, end)
            return (tag if at >= 0 else np.int64(ODD)), at, size
        at = _skipped(data, at, end, tag & 7)
        if at < 0:
            break
    return np.int64(0 if at >= 0 else ODD), np.int64(at), np.int64(0)


@_compiled
def _last_bytes(data: Array, at: int, size: int) -> int:
    """The last eight bytes of a text, or all if there are fewer."""
    if size >= 8:
        return _eight_bytes(data, at + size - 8)
    rest = np.int64(0)
    for place in range(at, at + size):
        rest = rest << 8 | _byte(data, place)
    return rest


@_compiled
def _is_ascii(data: Array, at: int, size: int) -> bool:
    high = _last_bytes(data, at, size)
    for place in range(at, at + size - 8, 8):
        high |= _eight_bytes(data, place)
    return (high & _HIGH_BITS) == 0


@_compiled
def _is_utf8(data: Array, at: int, size: int) -> bool:
    end = at + size
    while at < end:
        byte = _byte(data, at)
        at += 1
        if byte < 0x80:
            continue
        if byte < 0xC2 or byte > 0xF4:
            return False
        more = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
        if more > end - at:
            return False
        second = _byte(data, at)
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
            if (_byte(data, at) & 0xC0) != 0x80:
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
    for place in range(at, at + size - 8, 8):
        state = mixed(state, _eight_bytes(data, place))
    return mixed(state, _last_bytes(data, at, size)) * _SECOND_MULTIPLIER


@_compiled
def _same(data: Array, one: int, other: int, size: int) -> bool:
    for place in range(0, size - 8, 8):
        if _eight_bytes(data, one + place) != _eight_bytes(data, other + place):
            return False
    return _last_bytes(data, one, size) == _last_bytes(data, other, size)


@_compiled
def _word(data: Array, at: int, size: int, is_text: bool, out: Array, seed: int) -> int:
    """A word's number; `ODD`: there are too many, or it is no text."""
    if size == 0:
        return np.int64(0)
    found = text_hash(data, at, size, seed)
    mask = out[MOST + SLOTS] - 1
    slot = (found >> 20) & mask
    number = out[out[FIRST + SLOTS] + slot]
    while number != 0:
        word = out[FIRST + WORDS] + 2 * number
        is_known = out[out[FIRST + HASHES] + number] == found and out[word + 1] & _LOW_32 == size
        if is_known and _same(data, out[word], at, size):
            break
        slot = (slot + 1) & mask
        number = out[out[FIRST + SLOTS] + slot]
    word = out[FIRST + WORDS] + 2 * number
    if number == 0:
        number = out[WORDS]
        if number >= out[MOST + WORDS]:
            return np.int64(ODD)
        out[WORDS] = number + 1
        out[out[FIRST + SLOTS] + slot] = number
        out[out[FIRST + HASHES] + number] = found
        word = out[FIRST + WORDS] + 2 * number
        out[word] = at
        out[word + 1] = size
    if is_text and out[word + 1] >> 32 != VERIFIED:
        if not _is_text(data, at, size):
            return np.int64(ODD)
        out[word + 1] = size | VERIFIED << 32
    return number


# Messages. Each function reads one that lies from `at` to `end`, and gives a number that is
# `ODD` where it cannot.


@_compiled
def _pair(data: Array, at: int, end: int, out: Array, seed: int) -> int:
    """An attribute."""
    number = out[PAIRS]
    if number >= out[MOST + PAIRS]:
        return np.int64(ODD)
    key_size = np.int64(0)
    key_at = value_at = value_end = np.int64(ODD)
    while at < end:
        tag = _byte(data, at)
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
    key = _word(data, key_at, key_size, True, out, seed)
    if key < 0:
        return np.int64(ODD)
    place = out[FIRST + PAIRS] + 3 * number
    out[place] = 0
    out[place + 1] = key << 32
    out[place + 2] = 0
    out[PAIRS] = number + 1
    return _value(data, value_at, value_end, place, out) if value_at < value_end else np.int64(0)


@_compiled
def _value(data: Array, at: int, end: int, place: int, out: Array) -> int:
    """An attribute's value: one field."""
    tag = _byte(data, at)
    at += 1
    form = tag >> 3
    value = size = np.int64(0)
    if tag == 0x0A or tag == 0x2A or tag == 0x32 or tag == 0x3A:
        size, value = _sized(data, at, end)
        at = value + size
        if value < 0 or (tag == 0x0A and not _is_text(data, value, size)):
            return np.int64(ODD)
        if tag == 0x2A or tag == 0x32:
            out[NESTED] += 1
    elif tag == 0x10 or tag == 0x18:
        value, at = _varint(data, at, end)
        if tag == 0x10 and value != 0:
            value = np.int64(1)
    elif tag == 0x21 and end - at == 8:
        value = _eight_bytes(data, at)
        at = end
    else:
        return np.int64(ODD)
    out[place] = value
    out[place + 1] |= size
    out[place + 2] = form
    return np.int64(0) if at == end else np.int64(ODD)


@_compiled
def _event(data: Array, at: int, end: int, out: Array, seed: int) -> int:
    number = out[EVENTS]
    if number >= out[MOST + EVENTS]:
        return np.int64(ODD)
    out[EVENTS] = number + 1
    first = out[PAIRS]
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
                name = _word(data, at, size, True, out, seed)
                if name < 0:
                    return np.int64(ODD)
            elif _pair(data, at, at + size, out, seed) < 0:
                return np.int64(ODD)
            at += size
        else:
            before = at
            at = _skipped(data, at, end, tag & 7)
            if at < 0:
                return np.int64(ODD)
            if tag == 0x09:
                time_ns = _eight_bytes(data, before)
    place = out[FIRST + EVENTS] + 3 * number
    out[place] = time_ns
    out[place + 1] = name | first << 32
    out[place + 2] = out[PAIRS] - first
    return np.int64(0)


@_compiled
def _link(data: Array, at: int, end: int, out: Array, seed: int) -> int:
    number = out[LINKS]
    if number >= out[MOST + LINKS]:
        return np.int64(ODD)
    out[LINKS] = number + 1
    first = out[PAIRS]
    trace = span = state = np.int64(0)
    tag, at, size = _next(data, at, end)
    while tag > 0:
        done = np.int64(0)
        if tag == 0x0A:
            done = trace = _word(data, at, size, False, out, seed)
        elif tag == 0x12:
            done = span = _word(data, at, size, False, out, seed)
        elif tag == 0x1A:
            done = state = _word(data, at, size, True, out, seed)
        elif tag == 0x22:
            done = _pair(data, at, at + size, out, seed)
        if done < 0:
            return np.int64(ODD)
        tag, at, size = _next(data, at + size, end)
    if tag < 0:
        return np.int64(ODD)
    place = out[FIRST + LINKS] + 3 * number
    out[place] = trace | span << 32
    out[place + 1] = state | first << 32
    out[place + 2] = out[PAIRS] - first
    return np.int64(0)


@_compiled
def _lists(data: Array, at: int, end: int, out: Array, seed: int) -> int:
    """The events and links of a span whose fields were all looked at before."""
    while at < end:
        tag, at = _tag(data, at, end)
        if tag == 0x5A or tag == 0x6A:
            size, at = _sized(data, at, end)
            if tag == 0x5A:
                done = _event(data, at, at + size, out, seed)
            else:
                done = _link(data, at, at + size, out, seed)
            if done < 0:
                return np.int64(ODD)
            at += size
        else:
            at = _skipped(data, at, end, tag & 7)
    return np.int64(0)


@_compiled
def _status(data: Array, at: int, end: int, out: Array, seed: int) -> int:
    while at < end:
        tag, at = _tag(data, at, end)
        if at < 0:
            return np.int64(ODD)
        if tag == 0x12:
            size, at = _sized(data, at, end)
            if at < 0:
                return np.int64(ODD)
            message = _word(data, at, size, True, out, seed)
            if message < 0:
                return np.int64(ODD)
            out[MESSAGE] = message
            at += size
        elif tag == 0x18:
            code, at = _varint(data, at, end)
            code &= _LOW_32
            out[STATUS] = code if code <= 2 else 0
        else:
            at = _skipped(data, at, end, tag & 7)
        if at < 0:
            return np.int64(ODD)
    return np.int64(0)


@_compiled
def _is_zero(data: Array, at: int, size: int) -> bool:
    for place in range(at, at + size):
        if _byte(data, place) != 0:
            return False
    return True


@_compiled
def _number_of(data: Array, at: int) -> int:
    """Eight bytes, the highest first."""
    value = np.int64(0)
    for place in range(at, at + 8):
        value = value << 8 | _byte(data, place)
    return value


@_compiled
def _put_span(
    data: Array,
    out: Array,
    ids: tuple[int, int],
    fields: tuple[int, int, int, int],
    lists: tuple[int, int, int, int],
    words: tuple[int, int],
) -> None:
    """Write a span's record down."""
    first, pair_count, first_event, first_link = lists
    number = out[SPANS]
    place = out[FIRST + SPANS] + 13 * number
    out[place] = _number_of(data, ids[0])
    out[place + 1] = _number_of(data, ids[0] + 8)
    out[place + 2] = _number_of(data, ids[1])
    out[place + 3] = fields[0]
    out[place + 4] = fields[1]
    out[place + 5] = fields[2]
    # Two numbers of 32 bits each.
    out[place + 6] = first | pair_count << 32
    out[place + 7] = first_event | (out[EVENTS] - first_event) << 32
    out[place + 8] = first_link | (out[LINKS] - first_link) << 32
    out[place + 9] = words[0] | words[1] << 32
    out[place + 10] = out[MESSAGE] | (out[RESOURCES] - 1) << 32
    out[place + 11] = out[SCOPES] - 1
    out[place + 12] = fields[3] << 32 | out[STATUS] << 48
    out[SPANS] = number + 1


@_compiled
def _span(data: Array, at: int, end: int, out: Array, seed: int) -> int:
    if out[SPANS] >= out[MOST + SPANS]:
        return np.int64(ODD)
    first, first_event, first_link = out[PAIRS], out[EVENTS], out[LINKS]
    out[MESSAGE] = out[STATUS] = 0
    parent_id = start_ns = end_ns = kind = name = state = np.int64(0)
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
                if _pair(data, at, at + size, out, seed) < 0:
                    return np.int64(ODD)
            elif tag == 0x0A:
                trace_at = at if size == 16 and not _is_zero(data, at, 16) else np.int64(ODD)
            elif tag == 0x12:
                span_at = at if size == 8 and not _is_zero(data, at, 8) else np.int64(ODD)
            elif tag == 0x22:
                parent_id = _number_of(data, at) if size == 8 else np.int64(0)
            elif tag == 0x5A or tag == 0x6A:
                lists += 1
            elif tag == 0x2A:
                name = _word(data, at, size, True, out, seed)
            elif tag == 0x1A:
                state = _word(data, at, size, True, out, seed)
            elif tag == 0x7A and _status(data, at, at + size, out, seed) < 0:
                return np.int64(ODD)
            at += size
        elif tag == 0x30:
            kind, at = _varint(data, at, end)
            kind &= _LOW_32
            kind = kind if kind <= 5 else np.int64(0)
        else:
            before = at
            at = _skipped(data, at, end, tag & 7)
            if at >= 0 and tag == 0x39:
                start_ns = _eight_bytes(data, before)
            elif at >= 0 and tag == 0x41:
                end_ns = _eight_bytes(data, before)
        if at < 0 or name < 0 or state < 0:
            return np.int64(ODD)
    pair_count = out[PAIRS] - first
    if lists and _lists(data, start, end, out, seed) < 0:
        return np.int64(ODD)
    if trace_at < 0 or span_at < 0:
        out[REJECTED] += 1
        out[PAIRS], out[EVENTS], out[LINKS] = first, first_event, first_link
        return np.int64(0)
    fields = (parent_id, start_ns, end_ns, kind)
    lists_from = (first, pair_count, first_event, first_link)
    _put_span(data, out, (trace_at, span_at), fields, lists_from, (name, state))
    return np.int64(0)


@_compiled
def _scope(data: Array, at: int, end: int, out: Array, seed: int) -> int:
    """An instrumentation scope: its attributes are read, and dropped."""
    place = out[FIRST + SCOPES] + out[SCOPES] - 1
    name, version = out[place] & _LOW_32, out[place] >> 32
    tag, at, size = _next(data, at, end)
    while tag > 0:
        done = np.int64(0)
        if tag == 0x0A:
            done = name = _word(data, at, size, True, out, seed)
        elif tag == 0x12:
            done = version = _word(data, at, size, True, out, seed)
        elif tag == 0x1A:
            nested = out[NESTED]
            done = _pair(data, at, at + size, out, seed)
            if done < 0 or out[NESTED] != nested:
                return np.int64(ODD)
            out[PAIRS] -= 1
        if done < 0:
            return np.int64(ODD)
        tag, at, size = _next(data, at + size, end)
    if tag < 0:
        return np.int64(ODD)
    out[place] = name | version << 32
    return np.int64(0)


@_compiled
def _scope_spans(data: Array, at: int, end: int, out: Array, seed: int) -> int:
    number = out[SCOPES]
    if number >= out[MOST + SCOPES]:
        return np.int64(ODD)
    out[SCOPES] = number + 1
    out[out[FIRST + SCOPES] + number] = 0
    tag, at, size = _next(data, at, end)
    while tag > 0:
        done = np.int64(0)
        if tag == 0x12:
            done = _span(data, at, at + size, out, seed)
        elif tag == 0x0A:
            done = _scope(data, at, at + size, out, seed)
        elif tag == 0x1A and not _is_text(data, at, size):  # where its schema is described
            done = np.int64(ODD)
        if done < 0:
            return np.int64(ODD)
        tag, at, size = _next(data, at + size, end)
    return tag


@_compiled
def _resource(data: Array, at: int, end: int, out: Array, seed: int) -> int:
    place = out[FIRST + RESOURCES] + 3 * (out[RESOURCES] - 1)
    if out[place] >> 32:  # its attributes would not lie together
        return np.int64(ODD)
    first = out[PAIRS]
    tag, at, size = _next(data, at, end)
    while tag > 0:
        if tag == 0x1A:  # entities
            return np.int64(ODD)
        if tag == 0x0A and _pair(data, at, at + size, out, seed) < 0:
            return np.int64(ODD)
        tag, at, size = _next(data, at + size, end)
    if tag < 0:
        return np.int64(ODD)
    out[place] = first | (out[PAIRS] - first) << 32
    return np.int64(0)


@_compiled
def _resource_spans(data: Array, at: int, end: int, out: Array, seed: int) -> int:
    number = out[RESOURCES]
    if number >= out[MOST + RESOURCES]:
        return np.int64(ODD)
    out[RESOURCES] = number + 1
    out[out[FIRST + RESOURCES] + 3 * number] = out[PAIRS]
    tag, at, size = _next(data, at, end)
    while tag > 0:
        done = np.int64(0)
        if tag == 0x12:
            done = _scope_spans(data, at, at + size, out, seed)
        elif tag == 0x0A:
            done = _resource(data, at, at + size, out, seed)
        elif tag == 0x1A and not _is_text(data, at, size):
            done = np.int64(ODD)
        if done < 0:
            return np.int64(ODD)
        tag, at, size = _next(data, at + size, end)
    return tag


@_compiled
def scan(data: Array, out: Array, seed: int) -> int:
    """Fill the tables with a request; `ODD`: it is for the plain way."""
    end = np.int64(len(data))
    out[WORDS] = 1
    tag, at, size = _next(data, np.int64(0), end)
    while tag > 0:
        if tag == 0x0A and _resource_spans(data, at, at + size, out, seed) < 0:
            return np.int64(ODD)
        tag, at, size = _next(data, at + size, end)
    return tag
