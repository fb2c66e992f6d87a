"""The time that each stage ran, on the critical path or not."""

from collections import defaultdict
from collections.abc import Iterable

from latencytrace.analysis.trace.asgi_messages import is_send
from latencytrace.model import Segment, Stage, StageTimes, Trace

_Extent = tuple[int, int]  # start and end in ns


def stage_times(trace: Trace, segments: Iterable[Segment] = ()) -> dict[Stage, StageTimes]:
    """Busy and exclusive time of each stage.

    Args:
        trace: Every child lies within its parent, as `build_trace` makes it.
        segments: Its critical path; what its process reported fills gaps there that no span has.

    Returns:
        For each stage that a span or an interval of the trace belongs to, but for
        `unattributed`, which belongs to spans that explain nothing. Intervals packed on a
        span count as its children.
    """
    extents: dict[Stage, list[_Extent]] = defaultdict(list)
    exclusive_ns: dict[Stage, int] = defaultdict(int)
    for span_id, span in trace.spans.items():
        stage = trace.stages[span_id]
        if span is not trace.root and is_send(span, stage, trace.children):
            continue  # an interval of the span above stands for it
        extents[stage].append((span.start_ns, span.end_ns))
        inner = [(child.start_ns, child.end_ns) for child in trace.children.get(span_id, ())]
        for interval in trace.intervals.get(span_id, ()):
            extent = (interval.start_ns, interval.end_ns)
            inner.append(extent)
            extents[interval.stage].append(extent)
            exclusive_ns[interval.stage] += interval.end_ns - interval.start_ns
        exclusive_ns[stage] += span.end_ns - span.start_ns - covered_ns(inner)
    gaps = [
        (trace.root.start_ns + segment.start_ns, trace.root.start_ns + segment.end_ns)
        for segment in segments
        if segment.stage is Stage.RUNTIME
    ]
    if gaps:
        before_ns = covered_ns(extents[Stage.RUNTIME])
        extents[Stage.RUNTIME] += gaps
        exclusive_ns[Stage.RUNTIME] += covered_ns(extents[Stage.RUNTIME]) - before_ns
    return {
        stage: StageTimes(busy_ns=covered_ns(extents[stage]), exclusive_ns=exclusive_ns[stage])
        for stage in Stage
        if stage in extents and stage is not Stage.UNATTRIBUTED
    }


def covered_ns(extents: Iterable[_Extent]) -> int:
    """Return how long at least one of these runs."""
    covered = 0
    until_ns: int | None = None
    for start_ns, end_ns in sorted(extents):
        begins_ns = start_ns if until_ns is None else max(start_ns, until_ns)
        if end_ns > begins_ns:
            covered += end_ns - begins_ns
            until_ns = end_ns
    return covered
