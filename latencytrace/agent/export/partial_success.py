"""Spans that a receiver did not take, though it answers that it took the post.

Read by hand, for importing protobuf takes 0.1 s: the test has its classes as the oracle.
"""

from latencytrace.agent.export.transport import NOTHING, PartialSuccess

_VARINT, _BYTES = 0, 2  # protobuf's types of fields
_PARTIAL_SUCCESS, _REJECTED, _MESSAGE = 1, 1, 2  # numbers of fields
_MOST_BITS = 63
_MOST_CHARACTERS = 200


def partial_success(body: bytes) -> PartialSuccess:
    """Read the body of an answer, of traces or of metrics; what cannot be read says nothing."""
    rejected, message = 0, b""
    try:
        for number, value in _fields(body):
            if number == _PARTIAL_SUCCESS and isinstance(value, bytes):
                for inner, held in _fields(value):
                    if inner == _REJECTED and isinstance(held, int):
                        rejected = held
                    elif inner == _MESSAGE and isinstance(held, bytes):
                        message = held
    except (IndexError, ValueError):
        return NOTHING
    if rejected.bit_length() > _MOST_BITS:
        return NOTHING
    text = message.decode("utf-8", "replace")[:_MOST_CHARACTERS]
    return PartialSuccess(rejected, "".join(one if one.isprintable() else "?" for one in text))


def _fields(body: bytes) -> list[tuple[int, int | bytes]]:
    """Return the fields of a message, of the two types that there are.

    Raises:
        IndexError: The message is cut off.
        ValueError: The bytes are not such a message.
    """
    found: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(body):
        key, at = _number(body, at)
        value, at = _number(body, at)
        if key & 7 == _VARINT:
            found.append((key >> 3, value))
        elif key & 7 == _BYTES:
            if at + value > len(body):
                raise IndexError("a field is cut off")
            found.append((key >> 3, body[at : at + value]))
            at += value
        else:
            raise ValueError(f"a field of type {key & 7}")
    return found


def _number(body: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = body[at]
        number |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not byte & 0x80:
            return number, at
        if shift > _MOST_BITS:
            raise ValueError("a number is too long")
