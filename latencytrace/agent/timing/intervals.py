"""Collects the work interleaved with one span, bounded whatever the stream's length."""

from latencytrace.agent.clock import monotonic_ns
from latencytrace.model.interval import MAX_INTERVALS, Interval, pack_intervals
from latencytrace.model.stage import Stage

_HELD = 2 * MAX_INTERVALS  # intervals of one stage before neighbours are merged


class IntervalRecorder:
    """Intervals of one span, by stage; each stage's are added by one thread in order of time."""

    __slots__ = ("_open", "_stages")

    def __init__(self) -> None:
        self._stages: dict[Stage, list[tuple[int, int]]] = {}
        self._open: set[Stage] = set()

    def begin(self, stage: Stage) -> bool:
        """Whether work of a stage begins here; False: it is the inner half of what has begun."""
        if stage in self._open:
            return False
        self._open.add(stage)
        return True

    def add(self, stage: Stage, start_ns: int, end_ns: int | None = None) -> None:
        """Note work of a stage, from a monotonic time until another, or until now."""
        if self._open:
            self._open.discard(stage)
        intervals = self._stages.get(stage)
        if intervals is None:
            intervals = self._stages[stage] = []
        intervals.append((start_ns, monotonic_ns() if end_ns is None else end_ns))
        if len(intervals) >= _HELD:
            self._stages[stage] = merged_neighbours(intervals)

    def packed(self, span_start_ns: int) -> str:
        """The value of `latencytrace.intervals`, empty if nothing was noted.

        Args:
            span_start_ns: The monotonic start of the span that carries them.
        """
        stages = {stage: list(intervals) for stage, intervals in self._stages.items()}
        while sum(map(len, stages.values())) > MAX_INTERVALS:
            longest = max(stages, key=lambda stage: len(stages[stage]))
            stages[longest] = merged_neighbours(stages[longest])
        return pack_intervals(
            (
                Interval(stage=stage, start_ns=start_ns, end_ns=end_ns)
                for stage, intervals in stages.items()
                for start_ns, end_ns in intervals
            ),
            span_start_ns,
        )


def merged_neighbours(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge each two neighbours into one interval as long as both together.

    It ends where the second did: the stage keeps its exact time, and what moves, moves
    by no more than the gap between the two, towards the end, where a stream's last
    sends may be all that goes on.
    """
    merged = [
        (second[0] - first[1] + first[0], second[1])
        for first, second in zip(intervals[::2], intervals[1::2], strict=False)
    ]
    return merged + intervals[len(merged) * 2 :]
