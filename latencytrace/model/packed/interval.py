"""Work interleaved with a span, too short and too often for spans of its own.

A stream's blocked sends, its detokenising and the like travel on the span they
happened in as one attribute, `latencytrace.intervals`:

    respond:1200+340,50+30;detokenize:400+25

A group per stage; in it, comma-separated intervals in order of time, each
`gap+length` in nanoseconds, where the gap is counted from the end of the interval
before it in its group, and the first one's from the start of the span.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from latencytrace.model.stage import Stage

MAX_INTERVALS = 64  # on one span; beyond, neighbours are merged


class Interval(NamedTuple):
    """A stretch `[start_ns, end_ns)` of a span that belongs to a stage of its own."""

    stage: Stage
    start_ns: int
    end_ns: int


def pack_intervals(intervals: Iterable[Interval], span_start_ns: int) -> str:
    """Write intervals as the value of `latencytrace.intervals`.

    Args:
        intervals: In any order; those of one stage do not overlap.
        span_start_ns: The start of the span that carries them, on their clock.

    Returns:
        The text of the format above. An interval that starts before the span or
        before the end of its predecessor keeps its end and loses what sticks out.
    """
    groups: dict[Stage, list[str]] = {}
    ends: dict[Stage, int] = {}
    for interval in sorted(intervals, key=lambda interval: interval.start_ns):
        stage = interval.stage
        before_ns = ends.get(stage, span_start_ns)
        start_ns = max(interval.start_ns, before_ns)
        length_ns = interval.end_ns - start_ns
        if length_ns <= 0:
            continue
        groups.setdefault(stage, []).append(f"{start_ns - before_ns}+{length_ns}")
        ends[stage] = start_ns + length_ns
    return ";".join(f"{stage}:{','.join(parts)}" for stage, parts in groups.items())


def pack_named(groups: Mapping[str, Iterable[tuple[int, int]]], span_start_ns: int) -> str:
    """Write starts and ends in the same format, whatever their groups are called.

    Args:
        groups: In order of time; what begins before the span or before the end of its
            predecessor loses what sticks out.
        span_start_ns: The start of the span that carries them, on their clock.
    """
    packed = []
    for name, stretches in groups.items():
        parts: list[str] = []
        before_ns = span_start_ns
        for start_ns, end_ns in stretches:
            if end_ns > max(start_ns, before_ns):
                gap_ns = max(start_ns - before_ns, 0)
                parts.append(f"{gap_ns}+{end_ns - before_ns - gap_ns}")
                before_ns = end_ns
        if parts:
            packed.append(f"{name}:{','.join(parts)}")
    return ";".join(packed)


def unpack_intervals(packed: str, span_start_ns: int) -> tuple[Interval, ...]:
    """Read the value of `latencytrace.intervals`.

    Returns:
        Intervals in order of time, absolute on the clock of `span_start_ns`.

    Raises:
        ValueError: The text is not of the format above, or names an unknown stage.
    """
    intervals = [
        Interval(stage=Stage(name), start_ns=start_ns, end_ns=end_ns)
        for name, start_ns, end_ns in unpack_named(packed, span_start_ns)
    ]
    return tuple(sorted(intervals, key=lambda interval: (interval.start_ns, interval.end_ns)))


def unpack_named(packed: str, span_start_ns: int) -> Iterator[tuple[str, int, int]]:
    """The same format, whatever its groups are called.

    Returns:
        Name, start and end of each interval, group by group.

    Raises:
        ValueError: The text is not of the format.
    """
    for group in filter(None, packed.split(";")):
        name, _, parts = group.partition(":")
        position_ns = span_start_ns
        for part in parts.split(","):
            gap, separator, length = part.partition("+")
            if not (part.isascii() and separator and gap.isdigit() and length.isdigit()):
                raise ValueError(f"interval {part!r} of {name} is not of the form gap+length")
            start_ns = position_ns + int(gap)
            position_ns = start_ns + int(length)
            yield name, start_ns, position_ns


class RuntimeGap(StrEnum):
    """A name as `latencytrace.runtime` packs it: without blanks, for words are content there."""

    GARBAGE_COLLECTION = "garbage_collection"
    EVENT_LOOP_LAG = "event_loop_lag"
    THREAD_POOL_WAIT = "thread_pool_wait"
    RESULT_WAIT = "result_wait"  # of another thread or task: `queue`


_TITLES = {
    RuntimeGap.GARBAGE_COLLECTION: "garbage collection",
    RuntimeGap.EVENT_LOOP_LAG: "event-loop lag",
    RuntimeGap.THREAD_POOL_WAIT: "thread-pool wait",
    RuntimeGap.RESULT_WAIT: "wait for another thread or task",
}


def stage_of_gap(name: str) -> Stage:
    """Return the stage of its segments."""
    return Stage.QUEUE if name == RuntimeGap.RESULT_WAIT else Stage.RUNTIME


def title_of_gap(name: str) -> str:
    """The name of its segments: `event-loop lag`; of one that we do not know, its own words."""
    return _TITLES[RuntimeGap(name)] if name in _TITLES else name.replace("_", " ")
