"""Collects the work interleaved with one span, bounded whatever the stream's length.

Speed is the point here: to note an interval is to append two times to a list, and nothing is
merged or written before the span is sent, by the exporter's thread (`bench_request.py`).
"""

from collections.abc import Mapping
from itertools import accumulate
from operator import le, sub
from typing import Final

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.compiled.core import core, quicker
from latencytrace.agent.spans.attributes import Deferred
from latencytrace.agent.spans.span import RecordedSpan, defer
from latencytrace.model import semconv
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.packed import MAX_INTERVALS, pack_named
from latencytrace.model.stage import Stage

HELD: Final = 2048  # times of one stage, a start and an end each, before neighbours are merged
_FOLDED: Final = 8  # neighbours to one, then
TIME_BYTES: Final = 40  # that one time keeps in a list
Stages = Mapping[Stage, list[int]]  # start, end, start, end …


class IntervalRecorder:
    """Intervals of one span, by stage; each stage's are added by one thread in order of time."""

    __slots__ = ("_open", "_stages")

    def __init__(self) -> None:
        self._stages: dict[Stage, list[int]] = {}  # start, end, start, end …
        self._open: set[Stage] = set()

    def begin(self, stage: Stage) -> bool:
        """Begin work of a stage; False: it is the inner half of what has begun."""
        if stage in self._open:
            return False
        self._open.add(stage)
        return True

    def times(self, stage: Stage) -> list[int]:
        """Return where one thread notes starts and ends of a stage; at `HELD` it calls `fold`."""
        return self._stages.setdefault(stage, [])

    def add(self, stage: Stage, start_ns: int, end_ns: int | None = None) -> None:
        """Note work of a stage, from a monotonic time until another, or until now."""
        if self._open:
            self._open.discard(stage)
        times = self._stages.get(stage)
        if times is None:
            times = self._stages[stage] = []
        times += (start_ns, monotonic_ns() if end_ns is None else end_ns)
        if len(times) >= HELD:
            fold(times)

    def taken(self, span_start_ns: int) -> Deferred | None:
        """Give away what was noted, as the span's attribute; None: nothing was.

        Args:
            span_start_ns: The monotonic start of the span that carries them.
        """
        stages = self.give_away()
        if not any(stages.values()):
            return None
        return Deferred(NotedIntervals(stages, span_start_ns), weight_of(stages))

    def give_away(self) -> dict[Stage, list[int]]:
        """Give away what was noted, and begin anew."""
        stages, self._stages = self._stages, {}
        return stages

    def packed(self, span_start_ns: int) -> str:
        """Return the value of `latencytrace.intervals`, empty if nothing was noted."""
        return packed(self._stages, span_start_ns)


class NotedIntervals:
    """Starts and ends of one span, written as its attribute once it is sent.

    Args:
        span_start_ns: The monotonic start of the span.
    """

    __slots__ = ("span_start_ns", "stages")

    def __init__(self, stages: dict[Stage, list[int]], span_start_ns: int) -> None:
        self.stages = stages
        self.span_start_ns = span_start_ns

    def add(self, stage: Stage, start_ns: int, end_ns: int) -> None:
        """Note one more, of a span that is under way."""
        times = self.stages.setdefault(stage, [])
        times += (start_ns, end_ns)
        if len(times) >= HELD:
            fold(times)

    def __call__(self) -> dict[str, AttributeValue]:
        return attribute_of(self.stages, self.span_start_ns)


if core is not None:
    core.bind_deferred(Deferred, NotedIntervals, semconv.INTERVALS)
    core.bind_intervals(IntervalRecorder, Deferred, NotedIntervals, semconv.INTERVALS)


def add_interval(span: RecordedSpan, stage: Stage, start_ns: int, end_ns: int) -> None:
    """Note work interleaved with a span under way that collects none by itself."""
    kept: object = (span.raw_attributes or {}).get(semconv.INTERVALS)
    if kept is None:
        noted = NotedIntervals({stage: [start_ns, end_ns]}, span.started_ns)
        defer(span, semconv.INTERVALS, Deferred(noted, 2 * TIME_BYTES))
    elif isinstance(kept, Deferred) and isinstance(kept.pending, NotedIntervals):
        kept.pending.add(stage, start_ns, end_ns)


def weight_of(stages: Stages) -> int:
    """Return about how many bytes starts and ends keep."""
    return sum(map(len, stages.values())) * TIME_BYTES


def attribute_of(stages: Stages, span_start_ns: int) -> dict[str, AttributeValue]:
    text = packed(stages, span_start_ns)
    return {semconv.INTERVALS: text} if text else {}


@quicker("packed")
def packed(stages: Stages, span_start_ns: int) -> str:
    """Write starts and ends as the value of `latencytrace.intervals`.

    Args:
        stages: The times of each stage, of all together more than are reported.
        span_start_ns: The monotonic start of the span that carries them.
    """
    few = {stage: noted[:] for stage, noted in stages.items() if len(noted) > 1}
    if sum(map(len, few.values())) > 2 * MAX_INTERVALS:
        few = _fewer({stage: _in_order(noted) for stage, noted in few.items()})
    in_order = sorted(few, key=lambda stage: few[stage][0])
    groups = ((stage.value, _group(few[stage], span_start_ns)) for stage in in_order)
    return ";".join(f"{name}:{group}" for name, group in groups if group)


def _in_order(times: list[int]) -> list[int]:
    """Return starts and ends in order of time, as they nearly always are."""
    if all(map(le, times[1::2], times[2::2])):
        return times
    pairs = sorted(zip(times[::2], times[1::2], strict=False))
    return [at_ns for pair in pairs for at_ns in pair]


def _fewer(times: Stages) -> dict[Stage, list[int]]:
    """Merge neighbours, of the stage that has the most, until few enough are left to report."""
    counts = {stage: len(noted) // 2 for stage, noted in times.items()}
    sizes = dict.fromkeys(times, 1)  # of neighbours that become one
    while sum(counts.values()) > MAX_INTERVALS:
        longest = max(counts, key=counts.__getitem__)
        sizes[longest] *= 2
        counts[longest] = (counts[longest] + 1) // 2
    return {stage: merged(noted, sizes[stage]) for stage, noted in times.items()}


def _group(times: list[int], span_start_ns: int) -> str:
    """Write the times of one stage as `pack_named` does, at once where none overlap."""
    ends = times[1::2]
    numbers = times[: 2 * len(ends)]
    starts = numbers[::2]
    numbers[::2] = map(sub, starts, [span_start_ns, *ends])  # the gaps
    numbers[1::2] = map(sub, ends, starts)
    if min(numbers[::2]) >= 0 and min(numbers[1::2]) > 0:
        return ",".join(["%d+%d"] * len(ends)) % tuple(numbers)
    pairs = sorted(zip(starts, ends, strict=False))
    return pack_named({"": pairs}, span_start_ns).removeprefix(":")


def merged(times: list[int], size: int) -> list[int]:
    """Merge each so many neighbours into one interval as long as all of them.

    It ends where the last did: the stage keeps its exact time, and what moves, moves
    by no more than the gaps between them, towards the end, where a stream's last
    sends may be all that goes on.
    """
    if size == 1:
        return times
    ends = times[1::2]
    busy_ns = [0, *accumulate(map(sub, ends, times[::2]))]
    last_ends = ends[size - 1 :: size]
    until_ns = busy_ns[::size]
    if len(ends) % size:
        last_ends.append(ends[-1])
        until_ns.append(busy_ns[-1])
    found = last_ends * 2
    found[1::2] = last_ends
    found[::2] = map(sub, last_ends, map(sub, until_ns[1:], until_ns))
    return found


def fold(times: list[int]) -> None:
    """Merge what was noted in place: the recorder holds on to the list."""
    times[:] = merged(times, _FOLDED)
