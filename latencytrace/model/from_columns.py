"""Frozen values made field by field, which takes half as long as one by one."""

from collections import deque
from collections.abc import Iterable
from itertools import repeat
from typing import TypeVar

T = TypeVar("T")


def from_columns(kind: type[T], count: int, /, **columns: Iterable[object]) -> list[T]:
    """Values of a dataclass with slots.

    Args:
        kind: The dataclass. Nothing of its `__init__` is run, its defaults least of all.
        columns: All of its fields, each with the values in order.
    """
    found: list[T] = list(map(object.__new__, repeat(kind, count)))
    for name, values in columns.items():
        deque(map(vars(kind)[name].__set__, found, values), maxlen=0)
    return found
