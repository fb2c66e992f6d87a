"""Python values as columns of the engine's Native format.

A column is what follows its name and type there: `words` dictionary-encoded, as the type
LowCardinality is; the others as they are.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

VERSION: Final = (1).to_bytes(8, "little")  # of a dictionary: with keys of its own
_INDEX_TYPES: Final = (np.uint8, np.uint16, np.uint32)
_OWN_KEYS: Final = 0x600  # and they are all that is needed
_HIGHEST_BIT: Final = 0x80
_SIZES: Final = tuple(bytes((size,)) for size in range(_HIGHEST_BIT))

T = TypeVar("T")
Numbers = Sequence[int | None]


def block(rows: int, columns: Sequence[tuple[str, str, bytes]]) -> bytes:
    parts = [size(len(columns)), size(rows)]
    for name, type_, values in columns:
        parts += (text(name), text(type_), values)
    return b"".join(parts)


def text(value: str) -> bytes:
    return packed(value.encode("utf-8", "surrogateescape"))


def packed(value: bytes) -> bytes:
    """A text's bytes, after their length."""
    return size(len(value)) + value


def size(number: int) -> bytes:
    """A length, seven bits a byte, the lowest first."""
    if number < _HIGHEST_BIT:
        return _SIZES[number]
    return bytes((number & (_HIGHEST_BIT - 1) | _HIGHEST_BIT,)) + size(number >> 7)


def texts(values: Iterable[str]) -> bytes:
    return b"".join(each(values))


def each(values: Iterable[str]) -> list[bytes]:
    """Each text as `text` writes it."""
    found = [value.encode("utf-8", "surrogateescape") for value in values]
    return [_SIZES[len(one)] + one if len(one) < _HIGHEST_BIT else packed(one) for one in found]


def dictionary(keys: Sequence[bytes], index: NDArray[np.integer]) -> Sequence[bytes]:
    """The distinct texts, and of each row which of them it has; without rows nothing."""
    if not len(index):
        return ()
    dtype = index_type(len(keys))
    return (
        _longs(_OWN_KEYS | _INDEX_TYPES.index(dtype), len(keys)),
        *map(packed, keys),
        _longs(len(index)),
        index.astype(dtype).tobytes(),
    )


def index_type(count: int) -> type[np.uint8 | np.uint16 | np.uint32]:
    """Return the smallest type of numbers from 0 on that tells so many keys apart."""
    return _INDEX_TYPES[0 if count <= 1 << 8 else 1 if count <= 1 << 16 else 2]


def _longs(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in numbers)
