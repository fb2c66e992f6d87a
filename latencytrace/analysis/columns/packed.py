"""Reads packed times, many texts at once: array functions (`compiled/packed.c`).

They give what `unpack_named` and `unpack_token_times` of `model.packed` give for each text;
tests compare both. Texts that cannot be read here are left to those functions.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.compiled.core import bind, needed
from latencytrace.model import AttributeValue

_Column = NDArray[np.int64]
_Flags = NDArray[np.bool_]
_Bytes = NDArray[np.uint8]

UNREADABLE: Final = -1
_PLUS = ord("+")

bind(
    {
        "UNREADABLE": UNREADABLE,
        "MOST_DIGITS": 18,  # of a number that fits into 64 bits
        "MOST_NS": 1 << 60,
        "LAST_BUCKET": 976,  # of 2**64, as in `model.packed`
    }
)


class Texts(NamedTuple):
    """Texts as bytes, one behind the other."""

    data: _Bytes
    begins: _Column  # (m + 1,)

    @classmethod
    def of(cls, values: Sequence[AttributeValue]) -> tuple["Texts", _Flags]:
        """Join texts.

        Returns:
            The texts; and which values are no ASCII text, in whose place an empty one stands.
        """
        texts = [value if isinstance(value, str) else "\x80" for value in values]
        joined = "".join(texts)
        odd = np.zeros(len(texts), np.bool_)
        if not joined.isascii():
            odd = np.array([not text.isascii() for text in texts], np.bool_)
            texts = [text if text.isascii() else "" for text in texts]
            joined = "".join(texts)
        begins = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(np.array([len(text) for text in texts], np.int64), out=begins[1:])
        return cls(np.frombuffer(joined.encode(), np.uint8), begins), odd


def unpack_many(
    data: _Bytes, begins: _Column, names: _Bytes, name_begins: _Column
) -> tuple[_Flags, _Column, _Column]:
    """Read intervals.

    Args:
        data: Texts of the format of `model.packed`.
        begins: Where each begins (m + 1,).
        names: The names that groups may have.
        name_begins: Where each begins.

    Returns:
        Which texts cannot be read; where the intervals of each begin (m + 1,); the intervals
        (k, 3): start and end from the span's start, name; as they are written.
    """
    odd = np.empty(len(begins) - 1, np.bool_)
    of_text = np.empty(len(begins), np.int64)
    found = np.empty((np.count_nonzero(data == _PLUS), 3), np.int64)
    made = needed().unpack_many(data, begins, names, name_begins, odd, of_text, found)
    return odd, of_text, found[:made]


def put_apart(begins: _Column, found: _Column) -> tuple[_Column, _Column]:
    """Sort the intervals of each text by start, and cut those that overlap an earlier one.

    Args:
        begins: Where those of each begin (m + 1,).
        found: Start, end and name of each.

    Returns:
        The same of what is left.
    """
    left = np.empty((len(found), 3), np.int64)
    begins_left = np.empty(len(begins), np.int64)
    made = needed().put_apart(begins, found, begins_left, left)
    return begins_left, left[:made]


def total_gaps(data: _Bytes, begins: _Column) -> _Column:
    """Return the sum of the gaps between the tokens of each stream.

    Args:
        data: Texts of the format of `model.packed`.
        begins: Where each begins (m + 1,).

    Returns:
        In ns; `UNREADABLE` for a text of another format, or with numbers that are too long.
    """
    totals = np.empty(len(begins) - 1, np.int64)
    needed().total_gaps(data, begins, totals)
    return totals
