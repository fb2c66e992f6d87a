"""Time that nothing explains in which a request's thread waited for a processor, at least."""

from collections.abc import Sequence
from dataclasses import replace

from latencytrace.model import Segment, Stage, Trace, semconv
from latencytrace.model.packed import PROCESSOR_WAIT


def with_processor_waits(trace: Trace, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """A critical path in which the thread's wait for a processor fills what is unattributed.

    Linux tells how long it waited in all, not when. Where that is longer than all that has a
    stage, or is of another process, the rest was in time that nothing explains: so much of it
    is `runtime`, the longest segments first, each from its start.

    Args:
        trace: Of the request.
        segments: Critical path of the request.
    """
    root = trace.unclipped[trace.root.span_id]
    waited_ns = root.attributes.get(semconv.PROCESSOR_WAIT_NS)
    if not isinstance(waited_ns, int) or isinstance(waited_ns, bool) or waited_ns <= 0:
        return tuple(segments)
    unexplained = [
        place
        for place, segment in enumerate(segments)
        if segment.stage is Stage.UNATTRIBUTED
        and trace.spans[segment.span_id].service == root.service
        and trace.spans[segment.span_id].instance == root.instance
    ]
    lengths_ns = {
        place: segments[place].end_ns - segments[place].start_ns for place in unexplained
    }
    explained_ns = root.end_ns - root.start_ns - sum(lengths_ns.values())
    left_ns = waited_ns - explained_ns
    found: dict[int, tuple[Segment, ...]] = {
        place: (segment,) for place, segment in enumerate(segments)
    }
    for place in sorted(unexplained, key=lambda place: (-lengths_ns[place], place)):
        if left_ns <= 0:
            break
        found[place] = _filled(segments[place], min(left_ns, lengths_ns[place]))
        left_ns -= lengths_ns[place]
    return tuple(part for parts in found.values() for part in parts)


def _filled(segment: Segment, length_ns: int) -> tuple[Segment, ...]:
    """A segment that was a wait for so long, from its start."""
    until_ns = segment.start_ns + length_ns
    wait = replace(segment, end_ns=until_ns, stage=Stage.RUNTIME, name=PROCESSOR_WAIT)
    rest = replace(segment, start_ns=until_ns)
    return (wait, rest) if until_ns < segment.end_ns else (wait,)
