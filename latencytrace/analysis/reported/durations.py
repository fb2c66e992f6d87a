"""Puts the durations that engines report of their spans where no span explains them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from latencytrace.analysis.trace.known_engines import engine_of, have_engines
from latencytrace.model import Interval, Repair, RepairKind, Span, Stage

MAX_STRETCHES = 64  # below one span; beyond, neighbours are taken together

_Stretch = tuple[int, int]
_Intervals = Mapping[str, tuple[Interval, ...]]


def reported_durations(
    spans: Mapping[str, Span],
    unclipped: Mapping[str, Span],
    children: Mapping[str, Sequence[Span]],
    stages: Mapping[str, Stage],
    packed: _Intervals,
) -> tuple[dict[str, tuple[Interval, ...]], list[Repair]]:
    """Join what engines report of the time inside their spans to the intervals packed there.

    An attribute says how long a stage took, a span below says when as well: so what is
    reported fills only the time in which no span below explains anything, and no packed
    interval lies. In the critical path, where intervals win over all that lies below
    their span, it then takes nothing from a span that knows better.

    Args:
        spans: Of one request, by span id, each parent before its children, all clipped.
        unclipped: The spans as they were sent, by span id.
        children: By parent's span id.
        stages: By span id.
        packed: The intervals that came with the spans, by span id.

    Returns:
        All intervals by span id, each within its span; and a repair for each span that
        reported what cannot be.
    """
    intervals = dict(packed)
    repairs: list[Repair] = []
    if not have_engines(spans.values()):
        return intervals, repairs
    reporting = {
        span_id: engine
        for span_id, span in spans.items()
        if (engine := engine_of(span)) is not None and engine.tells_times
    }
    if not reporting:
        return intervals, repairs
    explained: dict[str, list[_Stretch]] = defaultdict(list)
    for span_id, span in reversed(list(spans.items())):
        below = explained.pop(span_id, [])
        below += _stretches(intervals.get(span_id, ()))
        if span_id in reporting:
            times = reporting[span_id].times(unclipped[span_id], children.get(span_id, ()))
            found = _around(times.intervals, span, _union(below))
            if found:
                intervals[span_id] = _in_order((*intervals.get(span_id, ()), *found))
                below += _stretches(found)
            if times.faults:
                detail = f"{span.name}: {'; '.join(times.faults)}"
                repairs.append(Repair(kind=RepairKind.TIMES, span_id=span_id, detail=detail))
        if span.parent_id is not None:
            whole = [(span.start_ns, span.end_ns)]
            explained[span.parent_id] += whole if stages[span_id].explains else _union(below)
    return intervals, repairs


def _stretches(intervals: Iterable[Interval]) -> list[_Stretch]:
    return [(interval.start_ns, interval.end_ns) for interval in intervals]


def _in_order(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    return tuple(
        sorted(
            intervals, key=lambda interval: (interval.start_ns, interval.end_ns, interval.stage)
        )
    )


def _union(stretches: Iterable[_Stretch]) -> list[_Stretch]:
    """Return what stretches cover together, in order of time; where they are many, a bit more."""
    union: list[_Stretch] = []
    for start_ns, end_ns in sorted(stretches):
        if union and start_ns <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end_ns))
        elif end_ns > start_ns:
            union.append((start_ns, end_ns))
    if len(union) <= MAX_STRETCHES:
        return union
    widest = sorted(later[0] - earlier[1] for earlier, later in pairwise(union))
    least_ns = widest[-MAX_STRETCHES + 1]
    wide: list[_Stretch] = []
    for start_ns, end_ns in union:
        if wide and start_ns - wide[-1][1] <= least_ns:
            wide[-1] = (wide[-1][0], end_ns)
        else:
            wide.append((start_ns, end_ns))
    return wide


def _around(
    reported: Iterable[Interval], span: Span, explained: Iterable[_Stretch]
) -> list[Interval]:
    """Return what is left of reported intervals within a span, around what is explained."""
    left = []
    for interval in reported:
        at_ns, until_ns = max(interval.start_ns, span.start_ns), min(interval.end_ns, span.end_ns)
        for start_ns, end_ns in (*explained, (until_ns, until_ns)):
            gap_ns = min(start_ns, until_ns)
            if gap_ns > at_ns:
                left.append(Interval(stage=interval.stage, start_ns=at_ns, end_ns=gap_ns))
            at_ns = max(at_ns, end_ns)
    return left
