"""What `content` says of content, in Python: for blocks too small for the engine's automaton.

It has no lists of its own, and comes to the same as the engine
(`tests/service/sql/test_arrival_rows.py`).
"""

import re
from functools import lru_cache
from typing import Final

from latencytrace.service.sql.content import (
    ADDRESS,
    ADDRESS_IN_NAME,
    ADDRESSES,
    CONTENT_KEY,
    CUT,
    CUT_OFF,
    KEPT,
    KEPT_KEYS,
    LEADING_TYPE,
    NAME_CHARACTERS,
    REMOVED,
    STRICT_KEY,
    TELLING,
    UNKNOWN_BYTES,
)

_FLAGS = re.DOTALL | re.ASCII  # as the engine's
_STRICT_KEY = re.compile(STRICT_KEY, _FLAGS)
_CONTENT_KEY = re.compile(CONTENT_KEY, _FLAGS)
_CUT_OFF = re.compile(CUT_OFF, _FLAGS)
_TELLING = re.compile(TELLING, _FLAGS)
_ADDRESS = re.compile(ADDRESS, _FLAGS)
_ADDRESS_IN_NAME = re.compile(ADDRESS_IN_NAME, _FLAGS)
_LEADING_TYPE = re.compile(LEADING_TYPE, _FLAGS)
_KEPT_KEYS = frozenset(KEPT_KEYS)
_ADDRESSES = frozenset(ADDRESSES)

LONGEST_KEY: Final = 256  # these patterns take a time of its square


def fate(key: str, letter: str, string: str) -> int:
    """What becomes of an attribute: KEPT, CUT or REMOVED.

    Args:
        key: Of at most `LONGEST_KEY` characters, all of them ASCII's.
        letter: Its value's type (see `otlp_view`).
        string: Its value, where that is a string.
    """
    told = _by_key(key, letter)
    if told is not None:
        return told
    if key in _ADDRESSES:
        return CUT if _CUT_OFF.search(string) else KEPT
    return REMOVED if len(string.encode()) > UNKNOWN_BYTES or _TELLING.match(string) else KEPT


@lru_cache(maxsize=4096)
def _by_key(key: str, letter: str) -> int | None:
    """What becomes of an attribute; None: its string tells."""
    if key in _KEPT_KEYS:
        return KEPT
    if letter == "s" and key in _ADDRESSES:
        return None
    if letter in "idb":
        return REMOVED if _STRICT_KEY.match(key) else KEPT
    if letter in "amy" or _CONTENT_KEY.match(key):
        return REMOVED
    return None if letter == "s" else KEPT


def cut_address(text: str) -> str:
    """An address without user, password, query and fragment."""
    return _ADDRESS.sub(r"\1\2\3", text, count=1)


def plain_name(name: str) -> str:
    """The name of a span or an event, without the query of an address in it."""
    return _ADDRESS_IN_NAME.sub(r"\1", name)[:NAME_CHARACTERS]


def plain_status(message: str) -> str:
    """The type of the exception that a status message begins with, if it does."""
    found = _LEADING_TYPE.match(message)
    return found[1] if found else ""
