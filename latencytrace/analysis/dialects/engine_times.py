"""Reads the times that engines tell, and lays them out within a span."""

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from latencytrace.analysis.dialects.engine import Times
from latencytrace.model import Interval, Span, Stage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000

_RUST_UNITS_NS = {"ns": 1, "µs": 1_000, "μs": 1_000, "us": 1_000, "ms": NS_PER_MS, "s": NS_PER_S}
_RUST_DURATION = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)(ns|µs|μs|us|ms|s)", re.ASCII)

Part = tuple[Stage, int]  # a stage, and how long it took in ns


class Reading:
    """Reads lengths of time off a span's attributes, and notes impossible ones."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self.faults: list[str] = []

    def seconds(self, key: str) -> int | None:
        """A number of seconds, in ns."""
        return self._number(key, NS_PER_S)

    def milliseconds(self, key: str) -> int | None:
        """A number of milliseconds, in ns."""
        return self._number(key, NS_PER_MS)

    def rust_duration(self, key: str) -> int | None:
        """A duration as Rust prints it (`1.234567s`, `12.3ms`, `456µs`), in ns."""
        value = self._span.attributes.get(key)
        if value is None:
            return None
        match = _RUST_DURATION.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            self._fault(key, value)
            return None
        return round(float(match[1]) * _RUST_UNITS_NS[match[2]])

    def moment(self, key: str) -> int | None:
        """A time of day in ISO's form, bare or as JSON, in ns after the span's start."""
        text = self._span.attributes.get(key)
        try:
            at = datetime.fromisoformat(text.strip('"')) if isinstance(text, str) else None
        except ValueError:
            return None
        if at is None or at.tzinfo is None:
            return None
        return (at - _EPOCH) // _MICROSECOND * 1_000 - self._span.start_ns

    def _number(self, key: str, unit_ns: int) -> int | None:
        value = self._span.attributes.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._fault(key, value)
            return None
        length_ns = value * unit_ns
        if not (math.isfinite(length_ns) and length_ns >= 0):
            self._fault(key, value)
            return None
        return round(length_ns)

    def _fault(self, key: str, value: object) -> None:
        self.faults.append(f"{key} is {str(value)[:64]!r}, which is no length of time")


def laid_out(
    span: Span, parts: Iterable[tuple[Stage, int | None]], *, start_ns: int, faults: Sequence[str]
) -> Times:
    """Parts that follow each other, as intervals of a span.

    Args:
        span: A span that tells how long each of the parts took, and not when.
        parts: Parts with their lengths; those of unknown length are left out.
        start_ns: When the first part began, as far as is known. They are moved to lie
            within the span; those that take longer than it altogether are cut off at
            its end, which is a fault.
        faults: What was wrong with the lengths.
    """
    known = [(stage, length_ns) for stage, length_ns in parts if length_ns]
    whole_ns = sum(length_ns for _, length_ns in known)
    room_ns = max(span.end_ns - span.start_ns, 0)
    if whole_ns > room_ns:
        fault = f"it tells of {whole_ns} ns and took {room_ns} ns"
        faults = (*faults, fault)
    at_ns = max(min(start_ns, span.end_ns - whole_ns), span.start_ns)
    intervals = []
    for stage, length_ns in known:
        end_ns = min(at_ns + length_ns, span.end_ns)
        if end_ns > at_ns:
            intervals.append(Interval(stage=stage, start_ns=at_ns, end_ns=end_ns))
        at_ns = end_ns
    return Times(intervals=tuple(intervals), faults=tuple(faults))


def between(span: Span, stage: Stage, first: str, last: str) -> list[Interval]:
    """The interval from an event of a span to another; none where one of them is missing."""
    starts_ns = [event.time_ns for event in span.events if event.name == first]
    ends_ns = [event.time_ns for event in span.events if event.name == last]
    if not starts_ns or not ends_ns:
        return []
    start_ns, end_ns = max(min(starts_ns), span.start_ns), min(max(ends_ns), span.end_ns)
    if start_ns >= end_ns:
        return []
    return [Interval(stage=stage, start_ns=start_ns, end_ns=end_ns)]
