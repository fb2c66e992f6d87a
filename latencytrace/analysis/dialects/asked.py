"""Texts that rules ask spans for by value: names, scopes, and the values of attributes."""

from collections.abc import Iterable
from typing import NamedTuple, Self


class Asked(NamedTuple):
    """How a rule knows a text. A text that it knows in none of these ways is as good as another.

    Rules may take a text in lower case first.
    """

    words: frozenset[str] = frozenset()  # the whole text
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()  # anywhere in a name; such a name is read as a whole

    @classmethod
    def all_of(cls, asked: Iterable[Self]) -> Self:
        """Join the texts that several rules ask for."""
        every = list(asked)
        return cls(
            frozenset(word for one in every for word in one.words),
            tuple(dict.fromkeys(start for one in every for start in one.starts)),
            tuple(dict.fromkeys(end for one in every for end in one.ends)),
            tuple(dict.fromkeys(part for one in every for part in one.parts)),
        )
