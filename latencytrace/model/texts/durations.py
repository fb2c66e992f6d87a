"""Durations as people write them: `250ms`, `2s`, `1.5m`."""

import re
from decimal import Decimal

_DURATION = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)(ns|us|ms|s|m|h)")
_UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_LONGEST_NS = 2**63 - 1  # what columns hold


def written_duration_ns(text: str) -> int | None:
    """Read a duration; None: it is none."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    return min(round(Decimal(match[1]) * _UNITS_NS[match[2]]), _LONGEST_NS)
