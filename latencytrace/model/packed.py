"""Attributes with many times in one text: intervals, gaps of the runtime, and times of tokens."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from latencytrace.model.stage import Stage

# Work interleaved with a span, too short and too often for spans of its own.
#
# A stream's blocked sends, its detokenising and the like travel on the span they
# happened in as one attribute, `latencytrace.intervals`:
#
#     respond:1200+340,50+30;detokenize:400+25
#
# A group per stage; in it, comma-separated intervals in order of time, each
# `gap+length` in nanoseconds, where the gap is counted from the end of the interval
# before it in its group, and the first one's from the start of the span.

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


PROCESSOR_WAIT = "wait for a processor"  # the title of such a wait: sent as a number


class RuntimeGap(StrEnum):
    """A name as `latencytrace.runtime` packs it: without blanks, for words are content there."""

    GARBAGE_COLLECTION = "garbage_collection"
    EVENT_LOOP_LAG = "event_loop_lag"
    THREAD_POOL_WAIT = "thread_pool_wait"
    RESULT_WAIT = "result_wait"  # of another thread or task: `queue`
    TURN_WAIT = "turn_wait"  # for steps of others on an event loop: `queue`
    DATABASE_LIBRARY = "database_library"  # its own work, around statements: `database`


_TITLES = {
    RuntimeGap.GARBAGE_COLLECTION: "garbage collection",
    RuntimeGap.EVENT_LOOP_LAG: "event-loop lag",
    RuntimeGap.THREAD_POOL_WAIT: "thread-pool wait",
    RuntimeGap.RESULT_WAIT: "wait for another thread or task",
    RuntimeGap.TURN_WAIT: "wait for its turn on the event loop",
    RuntimeGap.DATABASE_LIBRARY: "library of the database",
}
STAGES_OF_GAPS: Final = {  # of others it is `runtime`
    RuntimeGap.RESULT_WAIT: Stage.QUEUE,
    RuntimeGap.TURN_WAIT: Stage.QUEUE,
    RuntimeGap.DATABASE_LIBRARY: Stage.DATABASE,
}


def stage_of_gap(name: str) -> Stage:
    return STAGES_OF_GAPS[RuntimeGap(name)] if name in STAGES_OF_GAPS else Stage.RUNTIME


def title_of_gap(name: str) -> str:
    """The name of its segments: `event-loop lag`; of one that we do not know, its own words."""
    return _TITLES[RuntimeGap(name)] if name in _TITLES else name.replace("_", " ")


# The times of a stream's tokens: the value of `latencytrace.token_times`.
#
#     1200000;310,5821x19,420;88x3,1x16
#
# The first token's time from the start of the span; then the gaps between tokens in order of
# time, in nanoseconds; then, where there were too many, how long those were that are reported
# together. `total x count` are so many gaps in a row, together so long. Their lengths are
# counted in buckets, 16 to a power of two, `difference x count`: how far a bucket is from the
# one before, and how many gaps it holds. So count and sum are exact, and so is every gap that
# is reported by itself.

MAX_GAPS = 128  # reported one by one; of more, the longest are
LONGEST_TOLD = 32  # with what lies between them, 65 entries at most
_PER_OCTAVE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTimes:
    """The tokens of one stream."""

    first_ns: int
    lengths_ns: Sequence[int]  # of gaps, in order of time
    together: Sequence[int]  # for each: 0, one gap reported by itself; else of how many the total
    buckets: Mapping[int, int]  # of the gaps reported together: bucket → how many


def bucket_of(length_ns: int) -> int:
    """The bucket of a length: the middle of it is at most 3.2 % away."""
    shift = length_ns.bit_length() - 5
    return length_ns if shift < 0 else (shift << 4) + (length_ns >> shift)


def least_of(bucket: int) -> int:
    """Return the shortest length of a bucket."""
    shift = max(bucket // _PER_OCTAVE - 1, 0)
    return (bucket - _PER_OCTAVE * shift) << shift


def middle_of(bucket: int) -> int:
    return (least_of(bucket) + least_of(bucket + 1)) // 2


def pack_token_times(times: TokenTimes, span_start_ns: int) -> str:
    """Write token times as the text of the format above.

    Args:
        times: Times of one stream.
        span_start_ns: The start of the span that carries them, on their clock.
    """
    first = max(times.first_ns - span_start_ns, 0)
    if not times.buckets:
        lengths = tuple(times.lengths_ns)
        return f"{first};" + ",".join(["%d"] * len(lengths)) % lengths  # the quickest way
    entries = zip(times.lengths_ns, times.together, strict=True)
    gaps = ",".join([f"{length}x{count}" if count else str(length) for length, count in entries])
    return f"{first};{gaps};{','.join(_differences(times.buckets))}"


def _differences(buckets: Mapping[int, int]) -> Iterable[str]:
    before = 0
    for bucket in sorted(buckets):
        yield f"{bucket - before}x{buckets[bucket]}"
        before = bucket


def unpack_token_times(packed: str, span_start_ns: int) -> TokenTimes:
    """Read the text of the format above.

    Returns:
        Times on the clock of `span_start_ns`.

    Raises:
        ValueError: The text is not of the format, or contradicts itself.
    """
    first, gaps, *more = packed.split(";")
    if len(more) > 1:
        raise ValueError(f"token times have three parts at most, not {len(more) + 2}")
    entries = [_pair(part) for part in filter(None, gaps.split(","))]
    buckets: dict[int, int] = {}
    bucket = 0
    for part in filter(None, "".join(more).split(",")):
        difference, count = _pair(part)
        bucket += difference
        buckets[bucket] = buckets.get(bucket, 0) + count
    if sum(buckets.values()) != sum(together for _, together in entries):
        raise ValueError("token times count other gaps than they tell together")
    if bucket > bucket_of(2**64):
        raise ValueError("token times are longer than time is")
    return TokenTimes(
        first_ns=span_start_ns + _number(first),
        lengths_ns=tuple(length for length, _ in entries),
        together=tuple(together for _, together in entries),
        buckets=buckets,
    )


def _pair(text: str) -> tuple[int, int]:
    value, separator, count = text.partition("x")
    return _number(value), _number(count) if separator else 0


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(2**64))):
        raise ValueError(f"{text[:40]!r} is no number of token times")
    return int(text)
