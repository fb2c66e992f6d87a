"""Messages within an encoded request, counted before it is decoded.

protobuf's decoder keeps the interpreter to itself until it is done, 0.1 µs and some hundred
bytes a message: sixty megabytes of empty messages stop everything else for seconds. Here the
count is taken in Python, which lets others run, and ends where the limit is passed. It costs
some 0.3 µs a field, so that a body is looked through only if it holds so many bytes that could
begin a message.
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from latencytrace.model.varints import number_at

_VARINT, _LENGTH = 0, 2  # wire types
_FIXED_BYTES: Final = {1: 8, 5: 4}  # of the numbers of two more
_MORE: Final = 0x80  # of a byte of a number: another follows
_FIELDS_A_MESSAGE: Final = 2  # at most, where there are millions of messages
_SMALLEST_BYTES: Final = 2  # of a message within another: its tag and its length
_STRING_TYPES = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)

# By tag what follows it: the message's own fields; None: a text of a list, which counts too.
_Fields = dict[int, "_Fields | None"]


def has_more_parts(body: bytes, kind: type[Message], most: int) -> bool:
    """Tell whether a message holds more than `most` others, at any depth.

    Args:
        body: The encoded message.

    Returns:
        True, too, for more than twice as many fields of any kind; False, too, where it is torn:
        the decoder says how.
    """
    if len(body) <= most * _SMALLEST_BYTES:
        return False
    known: dict[str, _Fields] = {}
    fields = _fields_of(kind.DESCRIPTOR, known)
    tags = {tag for each in known.values() for tag in each if tag < _MORE}
    if sum(body.count(tag) for tag in tags) <= most:
        return False
    try:
        return _passes(body, fields, most)
    except IndexError:
        return False


def _fields_of(message: Any, known: dict[str, _Fields]) -> _Fields:
    fields = known.get(message.full_name)
    if fields is None:
        fields = known[message.full_name] = {}
        for field in message.fields:
            tag = field.number << 3 | _LENGTH
            if field.message_type is not None:
                fields[tag] = _fields_of(field.message_type, known)
            elif field.type in _STRING_TYPES and field.default_value == []:  # a list of them
                fields[tag] = None
    return fields


def _passes(body: bytes, fields: Mapping[int, _Fields | None], left: int) -> bool:
    at, end = 0, len(body)
    around: list[tuple[int, Mapping[int, _Fields | None]]] = []
    for _ in range(_FIELDS_A_MESSAGE * left + 1):
        while at >= end:
            if not around:
                return False
            end, fields = around.pop()
        tag, at = number_at(body, at)
        if tag & 7 != _LENGTH:
            at = _after_number(body, at, tag & 7)
            continue
        length, at = number_at(body, at)
        if tag in fields:
            left -= 1
            if left < 0:
                return True
            inner = fields[tag]
            if length and inner is not None:
                around.append((end, fields))
                fields, end = inner, min(at + length, end)
                continue
        at += length
    return True


def _after_number(body: bytes, at: int, wire_type: int) -> int:
    if wire_type == _VARINT:
        return number_at(body, at)[1]
    # Groups, which OTLP has none of, hold what looks like fields.
    return at + _FIXED_BYTES.get(wire_type, 0)
