"""Wait of a request between a front proxy and its application."""

import re

from latencytrace.agent.clock import system_ns

HEADERS = ("x-request-start", "x-queue-start")
MAX_QUEUED_NS = 600_000_000_000  # ten minutes: a longer one is a wrong clock or a wrong unit
_NUMBER = re.compile(r"[0-9]{1,20}(?:\.[0-9]{0,9})?")
_UNITS_NS = (1_000_000_000, 1_000_000, 1_000, 1)  # seconds, as nginx writes them, and finer
_LEAST_S = 1_000_000_000  # of Unix time in seconds: the year 2001


def queued_ns(header: str) -> int | None:
    """Read `X-Request-Start` or `X-Queue-Start`.

    Args:
        header: When the proxy took the request, as Unix time with or without `t=`, in
            seconds (nginx's `t=${msec}`), milliseconds (Heroku), microseconds (Apache's
            `t=%t`) or nanoseconds: distinguished by their size.

    Returns:
        How long ago that was; None: no such time, or one that cannot be.
    """
    text = header.strip().removeprefix("t=")
    whole, _, fraction = text.partition(".")
    if not _NUMBER.fullmatch(text):
        return None
    for unit_ns in _UNITS_NS:
        least = _LEAST_S * (_UNITS_NS[0] // unit_ns)
        if least <= int(whole) < 1_000 * least:
            at_ns = int(whole) * unit_ns
            if fraction:
                at_ns += int(fraction) * unit_ns // 10 ** len(fraction)
            waited_ns = system_ns() - at_ns
            return waited_ns if 0 <= waited_ns <= MAX_QUEUED_NS else None
    return None
