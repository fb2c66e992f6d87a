"""Reads packed times, many texts at once: array functions, to be compiled.

What `unpack_named` and `unpack_token_times` of `model.packed` do text by text;
those are the oracles. What cannot be read here they read, or refuse.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latencytrace.model import AttributeValue

_Column = NDArray[np.int64]
_Flags = NDArray[np.bool_]
_Bytes = NDArray[np.uint8]

UNREADABLE: Final = -1
_DIGITS = 18  # of a number, which then fits
_MOST_NS = 1 << 60
_COMMA, _PLUS, _COLON, _SEMICOLON, _X = (ord(sign) for sign in ",+:;x")
_ZERO, _NINE = ord("0"), ord("9")


class Texts(NamedTuple):
    """Texts as bytes, one behind the other."""

    data: _Bytes
    begins: _Column  # (m + 1,)

    @classmethod
    def of(cls, values: Sequence[AttributeValue]) -> tuple["Texts", _Flags]:
        """Join texts.

        Returns:
            The texts; and which values are none of ASCII alone, which are empty among those.
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


def unpack_many(  # noqa: C901, PLR0912, PLR0915 - a loop without calls
    data: _Bytes, begins: _Column, names: _Bytes, name_begins: _Column
) -> tuple[_Flags, _Column, _Column]:
    """Read intervals.

    Args:
        data: Texts of the format of `model.packed.interval`.
        begins: Where each begins (m + 1,).
        names: The names that groups may have.
        name_begins: Where each begins.

    Returns:
        Which texts cannot be read; where the intervals of each begin (m + 1,); the intervals
        (k, 3): start and end from the span's start, name; as they are written.
    """
    texts = len(begins) - 1
    odd = np.zeros(texts, np.bool_)
    of_text = np.zeros(texts + 1, np.int64)
    most = 0
    for at in range(len(data)):
        if data[at] == _PLUS:
            most += 1
    found = np.empty((most, 3), np.int64)
    made = 0
    for text in range(texts):
        at, beyond = begins[text], begins[text + 1]
        before = made
        readable = True
        while readable and at < beyond:
            if data[at] == _SEMICOLON:
                at += 1
                continue
            name_at = at
            while at < beyond and data[at] != _COLON and data[at] != _SEMICOLON:
                at += 1
            if at == beyond or data[at] == _SEMICOLON:
                readable = False
                break
            name = -1
            for one in range(len(name_begins) - 1):
                length = name_begins[one + 1] - name_begins[one]
                if length != at - name_at:
                    continue
                same = 0
                while same < length and names[name_begins[one] + same] == data[name_at + same]:
                    same += 1
                if same == length:
                    name = one
                    break
            if name < 0:
                readable = False
                break
            position_ns = 0
            while at < beyond and data[at] != _SEMICOLON:
                at += 1  # the colon, or a comma
                number = digits = 0
                while at < beyond and _ZERO <= data[at] <= _NINE and digits <= _DIGITS:
                    number = number * 10 + (int(data[at]) - _ZERO)
                    digits += 1
                    at += 1
                if not 0 < digits <= _DIGITS or at == beyond or data[at] != _PLUS:
                    readable = False
                    break
                from_ns = position_ns + number
                at += 1
                number = digits = 0
                while at < beyond and _ZERO <= data[at] <= _NINE and digits <= _DIGITS:
                    number = number * 10 + (int(data[at]) - _ZERO)
                    digits += 1
                    at += 1
                if not 0 < digits <= _DIGITS or number > _MOST_NS or from_ns > _MOST_NS:
                    readable = False
                    break
                position_ns = from_ns + number
                if position_ns > _MOST_NS or (
                    at < beyond and data[at] != _COMMA and data[at] != _SEMICOLON
                ):
                    readable = False
                    break
                found[made, 0] = from_ns
                found[made, 1] = position_ns
                found[made, 2] = name
                made += 1
        if not readable:
            odd[text] = True
            made = before
        of_text[text + 1] = made
    return odd, of_text, found[:made]


def put_apart(begins: _Column, found: _Column) -> tuple[_Column, _Column]:
    """Put the intervals of each text in order of time, and leave out what they overlap.

    Args:
        begins: Where those of each begin (m + 1,).
        found: Start, end and name of each.

    Returns:
        The same of what is left.
    """
    left = np.empty((len(found), 3), np.int64)
    begins_left = np.zeros(len(begins), np.int64)
    made = 0
    for text in range(len(begins) - 1):
        first = made
        for one in range(begins[text], begins[text + 1]):
            from_ns, to_ns, name = found[one]
            place = made
            while place > first and (
                left[place - 1, 0] > from_ns
                or (
                    left[place - 1, 0] == from_ns
                    and (
                        left[place - 1, 1] > to_ns
                        or (left[place - 1, 1] == to_ns and left[place - 1, 2] > name)
                    )
                )
            ):
                left[place] = left[place - 1]
                place -= 1
            left[place] = (from_ns, to_ns, name)
            made += 1
        kept = first
        before_ns = 0
        for one in range(first, made):
            from_ns, to_ns, name = left[one]
            since_ns = max(from_ns, before_ns)
            if since_ns < to_ns:
                left[kept] = (since_ns, to_ns, name)
                kept += 1
                before_ns = to_ns
        made = kept
        begins_left[text + 1] = made
    return begins_left, left[:made]


def total_gaps(data: _Bytes, begins: _Column) -> _Column:  # noqa: C901, PLR0912 - a loop without calls
    """How long the gaps between the tokens of each stream are together.

    Args:
        data: Texts of the format of `model.packed.token_times`.
        begins: Where each begins (m + 1,).

    Returns:
        In ns; `UNREADABLE`, where the format is not kept or numbers are long.
    """
    totals = np.zeros(len(begins) - 1, np.int64)
    for text in range(len(begins) - 1):
        at, beyond = begins[text], begins[text + 1]
        part = 0
        sum_ns = together = counted = bucket = 0
        readable = at < beyond
        while readable and at <= beyond:
            # A number, maybe `x` and another, up to a comma, a semicolon or the end.
            number = digits = 0
            while at < beyond and _ZERO <= data[at] <= _NINE and digits <= _DIGITS:
                number = number * 10 + (int(data[at]) - _ZERO)
                digits += 1
                at += 1
            count = count_digits = 0
            has_count = at < beyond and data[at] == _X
            if has_count:
                at += 1
                while at < beyond and _ZERO <= data[at] <= _NINE and count_digits <= _DIGITS:
                    count = count * 10 + (int(data[at]) - _ZERO)
                    count_digits += 1
                    at += 1
            ends = at == beyond or data[at] == _SEMICOLON
            if not ends and data[at] != _COMMA:
                readable = False
                break
            is_empty = digits == 0 and not has_count
            if (
                digits > _DIGITS
                or count_digits > _DIGITS
                or number > _MOST_NS
                or count > _MOST_NS
                or (not is_empty and digits == 0)
                or (has_count and count_digits == 0)
                or (part == 0 and (is_empty or has_count or not ends))
            ):
                readable = False
                break
            if part == 1:
                sum_ns += number
                together += count
            elif part == 2:  # noqa: PLR2004 - parts are counted
                bucket += number
                counted += count
            if sum_ns > _MOST_NS or together > _MOST_NS or bucket > _MOST_NS or counted > _MOST_NS:
                readable = False
                break
            if at < beyond and data[at] == _SEMICOLON:
                part += 1
            at += 1
        if not readable or not 1 <= part <= 2 or together != counted or bucket > _LAST_BUCKET:  # noqa: PLR2004
            totals[text] = UNREADABLE
        else:
            totals[text] = sum_ns
    return totals


_LAST_BUCKET = 976  # of 2**64, see `model.packed.token_times`
