"""The circumstances that a request met where it was served, as far as its spans tell."""

from collections.abc import Iterator
from dataclasses import dataclass

from latencytrace.analysis.tokens.counts import count_in
from latencytrace.model import Span, Stage, Trace, semconv

OURS = "latencytrace"  # the scope of our agent's spans
PUT_BACK = ("preempt", "retract")  # in the names of engines' events


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """None: nothing tells."""

    queue_depth: int | None  # the most that waited before it in one of its queues
    concurrency: int | None  # requests under way in its process when it began, with itself
    preemptions: int | None  # how often an engine made it wait again
    cold_start: bool | None  # whether something was loaded for it


def circumstances(trace: Trace) -> Circumstances:
    """Read what a request met off its spans.

    Nothing is made up: where neither our agent nor an engine tells a thing, it is unknown.
    That no load is reported means that there was none only if our agent timed the request,
    whose hooks would have reported it.
    """
    spans = trace.unclipped
    put_back = [count for span in spans.values() for count in _preemptions(span)]
    depths = [
        depth
        for span in spans.values()
        if (depth := count_in(span.attributes.get(semconv.QUEUE_DEPTH))) is not None
    ]
    loaded = Stage.LOAD in trace.stages.values() or any(
        interval.stage is Stage.LOAD
        for intervals in trace.intervals.values()
        for interval in intervals
    )
    is_ours = trace.root.scope == OURS
    return Circumstances(
        queue_depth=max(depths, default=None),
        concurrency=count_in(spans[trace.root.span_id].attributes.get(semconv.CONCURRENCY)),
        preemptions=sum(put_back) if put_back else None,
        cold_start=loaded if loaded or is_ours else None,
    )


def _preemptions(span: Span) -> Iterator[int]:
    count = count_in(span.attributes.get(semconv.PREEMPTIONS))
    if count is not None:
        yield count
    yield from [1] * reported_preemptions(span)


def reported_preemptions(span: Span) -> int:
    """Return how often events of a span say that it was put back."""
    names = [event.name.lower() for event in span.events]
    return sum(any(part in name for part in PUT_BACK) for name in names)
