"""The header `Retry-After`: the pause that a server asks for."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

_SECONDS: Final = re.compile(r"[0-9]{1,9}")


def retry_after_s(asked: str, date: str, now_ns: int | None = None) -> float | None:
    """Return the pause that an answer asks for; None: none, or no one can tell.

    A moment is held against the answer's own `Date`, for clocks differ.

    Args:
        asked: The header, seconds or a moment; one that has passed is now.
        date: The answer's `Date`.
        now_ns: Since the Unix epoch, for an answer without one; None: no one can tell then.

    Source: RFC 9110, section 10.2.3.
    """
    if _SECONDS.fullmatch(asked):
        return float(asked)
    until_s, at_s = _moment_s(asked), _moment_s(date)
    if at_s is None and now_ns is not None:
        at_s = now_ns / 1e9
    return None if until_s is None or at_s is None else max(0.0, until_s - at_s)


def _moment_s(text: str) -> float | None:
    """Return the moment of an HTTP date, which is of UTC whether it says so or not."""
    try:
        found: datetime = parsedate_to_datetime(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (IndexError, OverflowError, TypeError, ValueError):  # whatever a server calls a date
        return None
