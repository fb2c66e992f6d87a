"""Python values as columns of the engine's Native format.

A column is what follows its name and type there: `words` dictionary-encoded, as the type
LowCardinality is; the others as they are.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

VERSION: Final = (1).to_bytes(8, "little")  # of a dictionary: with keys of its own
_OWN_KEYS: Final = 0x600  # and they are all that is needed
_INDICES: Final = ((0, np.uint8), (1, np.uint16), (2, np.uint32))
_HIGHEST_BIT: Final = 0x80
_SHORT: Final = tuple(bytes((size,)) for size in range(128))

T = TypeVar("T")
Numbers = Sequence[int | None]


def block(rows: int, columns: Sequence[tuple[str, str, bytes]]) -> bytes:
    """A block of columns, each with its name and its type."""
    parts = [_size(len(columns)), _size(rows)]
    for name, type_, values in columns:
        parts += (text(name), text(type_), values)
    return b"".join(parts)


def text(value: str) -> bytes:
    """One text."""
    encoded = value.encode("utf-8", "surrogateescape")
    size = len(encoded)
    return (_SHORT[size] if size < len(_SHORT) else _size(size)) + encoded


def texts(values: Iterable[str]) -> bytes:
    """Texts of any kind."""
    return b"".join(map(text, values))


def numbers(dtype: type[np.number]) -> Callable[[Sequence[int]], bytes]:
    """Write numbers of this type."""

    def column(values: Sequence[int]) -> bytes:
        return np.array(values, dtype).tobytes()

    return column


def unknown_numbers(dtype: type[np.number]) -> Callable[[Numbers], bytes]:
    """Write numbers of this type, or None."""

    def column(values: Numbers) -> bytes:
        known = bytes(value is None for value in values)
        return known + np.array([value or 0 for value in values], dtype).tobytes()

    return column


def words(values: Sequence[str]) -> bytes:
    """Texts that come again and again."""
    return VERSION + _dictionary(values, {})


def unknown_words(values: Sequence[str | None]) -> bytes:
    """Texts that come again and again, or None."""
    return VERSION + _dictionary(values, {None: 0})


def lists(column: Callable[[list[T]], bytes]) -> Callable[[Sequence[Sequence[T]]], bytes]:
    """Write lists of what `column` writes."""

    def listed(values: Sequence[Sequence[T]]) -> bytes:
        ends = np.fromiter(accumulate(map(len, values)), np.uint64, len(values))
        return ends.tobytes() + column(list(chain.from_iterable(values)))

    return listed


def lists_of_words(values: Sequence[Sequence[str]]) -> bytes:
    """Lists of `words`."""
    ends = np.fromiter(accumulate(map(len, values)), np.uint64, len(values))
    return VERSION + ends.tobytes() + _dictionary(list(chain.from_iterable(values)), {})


def _dictionary(values: Sequence[str | None], places: dict[str | None, int]) -> bytes:
    """The distinct values, and of each value which of them it is."""
    found = [places.setdefault(value, len(places)) for value in values]
    return dictionary(list(places), np.array(found, np.int64))


def dictionary(distinct: Sequence[str | None], places: NDArray[np.int64]) -> bytes:
    """Distinct values, and of each row which of them it has; without rows nothing."""
    if not len(places):
        return b""
    code, dtype = next(one for one in _INDICES if len(distinct) <= np.iinfo(one[1]).max + 1)
    return b"".join(
        (
            (_OWN_KEYS | code).to_bytes(8, "little"),
            len(distinct).to_bytes(8, "little"),
            texts(value or "" for value in distinct),
            len(places).to_bytes(8, "little"),
            places.astype(dtype).tobytes(),
        )
    )


def _size(number: int) -> bytes:
    found = bytearray()
    while number >= _HIGHEST_BIT:  # seven bits a byte
        found.append(number & (_HIGHEST_BIT - 1) | _HIGHEST_BIT)
        number >>= 7
    found.append(number)
    return bytes(found)
