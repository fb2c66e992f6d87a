"""OTLP's JSON mended, before protobuf's parser sees it: what it would refuse is left out.

The parser refuses a whole request for one value. Here each value is held against the type that
OTLP has for it; half of a character, which no UTF-8 can hold, becomes U+FFFD.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.service.otlp.mending.account import Mend, Mending

Tree = dict[str, object]

REFUSALS: Final = (
    json_format.ParseError, ValueError, OverflowError, RecursionError,
    SystemError,  # of half a character in a key or an enum
)  # fmt: skip
"""The errors by which protobuf's parser of JSON refuses a value."""
DEEPEST: Final = 64  # messages within messages; protobuf takes no more than 100

_HALVES = re.compile("[\ud800-\udfff]")
_INT64: Final = {
    FieldDescriptor.TYPE_INT64: range(-(2**63), 2**63),
    FieldDescriptor.TYPE_FIXED64: range(2**64),
    FieldDescriptor.TYPE_FIXED32: range(2**32),
    FieldDescriptor.TYPE_UINT32: range(2**32),
}


def whole(text: str) -> str:
    """A text with U+FFFD in the place of halves of characters."""
    return _HALVES.sub("\ufffd", text)


def mend_tree(tree: Tree, kind: type[Message], mending: Mending) -> None:
    """Leave out what protobuf's parser would refuse.

    Args:
        tree: A request; it is changed. Its resources are its only lists.
    """
    _Mender(mending).message(tree, kind, 0)


class _Mender:
    """Mends the values of one request."""

    def __init__(self, mending: Mending) -> None:
        self._mending = mending

    def message(self, tree: Tree, kind: type[Message], depth: int) -> None:
        """Mend the fields of a message."""
        fields = _FIELDS[kind]
        seen: set[str] = set()
        for name in list(tree):
            known = fields.get(name)
            if known is None and whole(name) != name:  # not even passed over by the parser
                self._leave_out()
                del tree[name]
                continue
            if known is None or tree[name] is None:
                continue
            place = known.name if known.containing_oneof is None else known.containing_oneof.name
            if place in seen:  # a field with both of its names, or two values for one
                self._leave_out()
                del tree[name]
                continue
            seen.add(place)
            found = self._field(tree[name], known, kind, depth)
            if found is None:
                del tree[name]
            else:
                tree[name] = found

    def _field(self, value: object, known: Any, kind: type[Message], depth: int) -> object:
        """The part of a value that a field may have; None: nothing."""
        if not known.is_repeated:
            return self._value(value, known, kind, depth)
        if not isinstance(value, list):
            self._leave_out()
            return None
        items: list[object] = []
        for item in value:
            before = self._mending.count
            found = self._value(item, known, kind, depth)
            if found is not None:
                if not depth and self._mending.count > before:
                    self._mending.resources.add(len(items))
                items.append(found)
        return items

    def _value(self, value: object, known: Any, kind: type[Message], depth: int) -> object:
        """A value, or an item of a list; None: it cannot be."""
        if known.message_type is not None:
            within = GetMessageClass(known.message_type)
            if isinstance(value, dict) and depth < DEEPEST:
                self.message(value, within, depth + 1)
                return value
            if within is ProtoSpan:
                self._mending.lost_spans += 1
                return None
        elif known.type == FieldDescriptor.TYPE_STRING:
            if isinstance(value, str):
                text = whole(value)
                if text != value:
                    self._mending.values[Mend.TEXT] += 1
                return text
        elif _is_number(value, known) or _can_be(value, known, kind):
            return value
        self._leave_out()
        return None

    def _leave_out(self) -> None:
        self._mending.values[Mend.VALUE] += 1


def _is_number(value: object, known: Any) -> bool:
    """Return whether a value is a whole number that its field holds."""
    return type(value) is int and value in _INT64.get(known.type, ())


def _can_be(value: object, known: Any, kind: type[Message]) -> bool:
    """Ask the parser about a value that is seldom: 10 µs."""
    tree = {known.name: [value] if known.is_repeated else value}
    try:
        json_format.ParseDict(tree, kind(), ignore_unknown_fields=True)
    except REFUSALS:
        return False
    return value is not None


class _Fields(dict[type[Message], Mapping[str, Any]]):
    """The fields of each message, by both of their names."""

    def __missing__(self, kind: type[Message]) -> Mapping[str, Any]:
        fields = kind.DESCRIPTOR.fields
        found = {one.name: one for one in fields} | {one.json_name: one for one in fields}
        self[kind] = found
        return found


_FIELDS = _Fields()
