"""Values of OTLP's attributes: as the model has them, and numbers as the store writes them."""

import json
import struct
from base64 import b64encode
from collections.abc import Mapping
from decimal import Decimal
from enum import IntEnum
from typing import Final, cast

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValueList

from latencytrace.model import AttributeValue

LETTERS: Final = "nsbidamy"  # of the forms, in their order


class Form(IntEnum):
    """A value's type, by the number of its field in AnyValue."""

    NONE = 0
    STRING = 1
    BOOL = 2
    INT = 3
    DOUBLE = 4
    ARRAY = 5
    MAP = 6
    BYTES = 7


def value_from(value: AnyValue) -> AttributeValue:
    """The value that a protobuf AnyValue holds; a map as JSON text."""
    match value.WhichOneof("value"):
        case None | "string_value_strindex":
            return None
        case "array_value":
            return from_array(value.array_value)
        case "kvlist_value":
            return from_map(value.kvlist_value)
        case name:
            return cast(AttributeValue, getattr(value, name))


def from_array(array: ArrayValue) -> tuple[AttributeValue, ...]:
    """A list's values."""
    return tuple(value_from(value) for value in array.values)


def from_map(pairs: KeyValueList) -> str:
    """A map as JSON text."""
    return json_of({pair.key: value_from(pair.value) for pair in pairs.values})


def json_of(items: Mapping[str, AttributeValue]) -> str:
    """A map as JSON text; bytes within it as base64."""
    return json.dumps(items, ensure_ascii=False, separators=(",", ":"), default=_base64)


def _base64(value: object) -> str:
    return b64encode(cast(bytes, value)).decode()


def double_text(value: float) -> str:
    """A fraction as the engine writes it, and JavaScript: no exponent from 1e-6 up to 1e21."""
    text = repr(value).removesuffix(".0")
    if "e" not in text:
        return text
    if 1e-6 <= abs(value) < 1e21:  # noqa: PLR2004 - the bits of a byte
        return f"{Decimal(text):f}"
    digits, exponent = text.split("e")
    return f"{digits}e{int(exponent)}"


def double_of(bits: int) -> float:
    """A fraction from its bits."""
    value: float = _DOUBLE.unpack(_LONG.pack(bits))[0]
    return value


def bits_of(value: float) -> int:
    """The bits of a fraction."""
    bits: int = _LONG.unpack(_DOUBLE.pack(value))[0]
    return bits


_DOUBLE = struct.Struct("<d")
_LONG = struct.Struct("<q")


def flat_text(form: int, number: int, text: bytes) -> str:
    """A value as the store writes it where lists and maps stay what they were on the wire.

    Args:
        number: Bits of the value, if it is a number.
        text: Bytes of the value, if it is not a number.
    """
    match form:
        case Form.NONE:
            return ""
        case Form.STRING:
            return text.decode()
        case Form.BOOL:
            return "true" if number else "false"
        case Form.INT:
            return str(number)
        case Form.DOUBLE:
            return double_text(double_of(number))
        case _:
            return b64encode(text).decode()
