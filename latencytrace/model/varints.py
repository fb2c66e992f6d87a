"""Whole numbers of variable length, as protobuf's messages hold them: written and read by hand."""

from typing import Final

_MORE: Final = 0x80  # of a byte: another one follows
_MOST_BITS: Final = 63  # before the last byte
_MAX_UINT64: Final = (1 << 64) - 1
_ONE_BYTE: Final = [bytes((number,)) for number in range(_MORE)]
_LOW_BYTE: Final = [bytes((number | _MORE,)) for number in range(_MORE)]


def varint(number: int) -> bytes:
    """Write a number; one below 0 as its 64 bits."""
    if 0 <= number < _MORE:
        return _ONE_BYTE[number]
    if 0 <= number < _MORE * _MORE:
        return _LOW_BYTE[number & 0x7F] + _ONE_BYTE[number >> 7]
    written = bytearray()
    number &= _MAX_UINT64
    while number >= _MORE:
        written.append(number & 0x7F | _MORE)
        number >>= 7
    written.append(number)
    return bytes(written)


def number_at(body: bytes, at: int) -> tuple[int, int]:
    """Read a number, and where it ends.

    Raises:
        IndexError: The number is cut off, or longer than ten bytes.
    """
    byte = body[at]
    if byte < _MORE:  # as most are
        return byte, at + 1
    number = shift = 0
    while byte >= _MORE:
        number |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > _MOST_BITS:
            raise IndexError("a number is too long")
        byte = body[at]
    return number | byte << shift, at + 1
