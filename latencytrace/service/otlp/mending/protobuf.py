"""Requests that protobuf's decoder refuses, mended: one bad text costs one text, never a post.

Collectors pass on what they get, so that one sender's texts would cost the spans of all. Here
a text that is no UTF-8 gets U+FFFD where it is wrong; a value that cannot be read is left out; a
span that is cut off is lost, and the spans before it are kept.

Only what the decoder refuses is walked through in Python: 30 µs a span in which a text is bad.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.errors import OtlpError
from latencytrace.model.varints import number_at, varint
from latencytrace.service.otlp.mending.account import Mend, Mending

_VARINT, _LENGTH = 0, 2  # wire types
_FIRST_TAG, _LAST_TAG = 8, 2**32 - 1
_FIXED_BYTES: Final = {1: 8, 5: 4}  # of the numbers of two more
DEEPEST: Final = 10  # messages within messages; what is deeper and bad is left out


OLD_TAG: Final = b"\xc2\x3e"  # of a resource's spans in OTLP before 0.19: field 1000
_OLD_NUMBER: Final = 1000


def mended(plain: bytes, error: OtlpError, mending: Mending) -> ExportTraceServiceRequest:
    """A request out of bytes that the decoder refuses; or whose spans have their old tag.

    Args:
        plain: The body of the post, decompressed.
        error: Why they are refused.

    Raises:
        OtlpError: That error, where all spans are lost.
    """
    for looks_at_all in (False, True):
        mending.clear()
        try:
            found = ExportTraceServiceRequest.FromString(
                _Mender(mending, looks_at_all=looks_at_all).message(
                    plain, ExportTraceServiceRequest
                )
            )
        except DecodeError:  # it is nested too deeply, which no part of it is alone
            continue
        if has_spans(found) or not mending.lost_spans:
            return found
        break
    raise error


def with_whole_texts(plain: bytes, kind: type[Message]) -> bytes | None:
    """A message of any kind, its texts in UTF-8; None: more than texts is wrong with it."""
    mending = Mending()
    found = _Mender(mending, looks_at_all=False).message(plain, kind)
    return found if mending.count == mending.values[Mend.TEXT] else None


def has_spans(request: ExportTraceServiceRequest) -> bool:
    """Return whether there is a span in a request."""
    return any(scope.spans for spans in request.resource_spans for scope in spans.scope_spans)


class _Torn(IntEnum):
    """The ways to treat a message that is torn."""

    LEFT_OUT = 0
    KEPT = 1  # up to there
    HOLDS_SPANS = 2  # likewise; a span of it is lost
    SPAN = 3  # lost


class _Mender:
    """Writes what can be read."""

    def __init__(self, mending: Mending, *, looks_at_all: bool) -> None:
        self._mending = mending
        self._looks_at_all = looks_at_all

    def message(self, plain: bytes, kind: type[Message]) -> bytes:
        """The readable part of the outermost message."""
        written = bytearray()
        lost = self._mending.lost_spans
        try:
            self._fields(plain, kind, 0, written)
        except IndexError:
            self._mending.lost_spans += self._mending.lost_spans == lost
        return bytes(written)

    def _fields(self, plain: bytes, kind: type[Message], depth: int, written: bytearray) -> None:
        """Write the fields of a message.

        Raises:
            IndexError: It is torn; what stood before that is written.
        """
        fields = _FIELDS[kind]
        at, end, place = 0, len(plain), 0
        while at < end:
            begin = at
            tag, at = _tag(plain, at)
            if tag & 7 != _LENGTH:
                at = _after_number(plain, at, tag & 7)
                written += plain[begin:at]
                continue
            size, at = number_at(plain, at)
            known = fields.get(tag >> 3)
            is_cut = size > end - at
            if known is None and not is_cut:
                written += plain[begin : at + size]
            elif known is not None and (not is_cut or _HOW.get(known.kind) == _Torn.HOLDS_SPANS):
                before = 0 if depth else self._mending.count
                self._field(plain[at : at + size], known, depth, written)
                if not depth and self._mending.count > before:
                    self._mending.resources.add(place)
                place += 1
            if is_cut:
                raise IndexError
            at += size

    def _field(self, inner: bytes, known: "_Field", depth: int, written: bytearray) -> None:
        """Write a text or a message."""
        if known.kind is None:
            text = inner.decode("utf-8", "replace").encode()
            if text != inner:
                self._mending.values[Mend.TEXT] += 1
        else:
            found = self._within(inner, known.kind, depth)
            if found is None:
                return
            text = found
        written += known.tag + varint(len(text)) + text

    def _within(self, inner: bytes, kind: type[Message], depth: int) -> bytes | None:
        """A message within another; None: it is left out."""
        if not self._looks_at_all and _is_whole(inner, kind):
            return inner
        if depth == DEEPEST:
            self._mending.values[Mend.VALUE] += 1
            return None
        written = bytearray()
        lost = self._mending.lost_spans
        try:
            self._fields(inner, kind, depth + 1, written)
        except IndexError:
            how = _HOW.get(kind, _Torn.LEFT_OUT)
            if how in (_Torn.SPAN, _Torn.HOLDS_SPANS):
                self._mending.lost_spans += self._mending.lost_spans == lost
            else:
                self._mending.values[Mend.TORN] += 1
            if how in (_Torn.SPAN, _Torn.LEFT_OUT):
                return None
        return bytes(written)


class _Field(NamedTuple):
    tag: bytes
    kind: type[Message] | None  # None: a text


class _Fields(dict[type[Message], Mapping[int, _Field]]):
    """The texts and messages of each message, by number."""

    def __missing__(self, kind: type[Message]) -> Mapping[int, _Field]:
        found: dict[int, _Field] = {
            one.number: _Field(varint(one.number << 3 | _LENGTH), _kind_of(one))
            for one in kind.DESCRIPTOR.fields
            if one.message_type is not None or one.type == FieldDescriptor.TYPE_STRING
        }
        if kind is ResourceSpans:
            found[_OLD_NUMBER] = found[ResourceSpans.SCOPE_SPANS_FIELD_NUMBER]
        self[kind] = found
        return found


_FIELDS = _Fields()


def _kind_of(one: Any) -> type[Message] | None:
    return None if one.message_type is None else GetMessageClass(one.message_type)


def _is_whole(plain: bytes, kind: type[Message]) -> bool:
    if kind is ResourceSpans and OLD_TAG in plain:
        return False
    try:
        kind.FromString(plain)
    except DecodeError:
        return False
    return True


_HOW: Final[Mapping[type[Message] | None, _Torn]] = {
    ExportTraceServiceRequest: _Torn.HOLDS_SPANS,
    ResourceSpans: _Torn.HOLDS_SPANS,
    ScopeSpans: _Torn.HOLDS_SPANS,
    ProtoSpan: _Torn.SPAN,
    Resource: _Torn.KEPT,
}


def _tag(plain: bytes, at: int) -> tuple[int, int]:
    """A field's number and wire type, and where they end.

    Raises:
        IndexError: There is no such field.
    """
    tag, at = number_at(plain, at)
    if not _FIRST_TAG <= tag <= _LAST_TAG:
        raise IndexError
    return tag, at


def _after_number(plain: bytes, at: int, wire_type: int) -> int:
    """Where a number ends; groups, which OTLP has none of, are torn.

    Raises:
        IndexError: The field is cut off.
    """
    if wire_type == _VARINT:
        return number_at(plain, at)[1]
    after = at + _FIXED_BYTES.get(wire_type, len(plain) + 1)
    if after > len(plain):
        raise IndexError
    return after
