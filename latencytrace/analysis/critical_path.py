"""Which span, and which stage, each instant of a request belongs to."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from latencytrace.model import Interval, Segment, Span, Stage, Trace

_STAGE_ORDER = {stage: f"{place:02d}" for place, stage in enumerate(Stage)}


@dataclass(frozen=True, slots=True)
class _Claim:
    """A child of a span, or an interval on it, that may hold some of its instants."""

    start_ns: int
    end_ns: int
    holder: Span | Stage
    rank: tuple[int, int, int, str]  # the smallest of those running holds the instant


@dataclass(frozen=True, slots=True)
class _Window:
    """A stretch of the request that one span holds, to be divided among what runs in it."""

    span: Span
    start_ns: int
    end_ns: int


def critical_path(trace: Trace) -> tuple[Segment, ...]:
    """Charge each nanosecond of a request to the span that held it up.

    At each instant that a span holds, the time belongs to the child that was
    running and finished last, recursively; to the span itself only while none of
    its children runs. Ties go to the later end, then the later start, then the
    smaller span id. The intervals packed on a span win over its children.

    Args:
        trace: Every child lies within its parent (see `analysis.build_trace`).

    Returns:
        Segments relative to the request's start, in order of time, without gap or
        overlap. Their lengths add up to exactly the length of `trace.root`.

    Source: Zhang et al., "CRISP: Critical Path Analysis of Large-Scale
    Microservice Architectures", USENIX ATC 2022, and Jaeger's critical path.
    Unlike both we also follow a child that was still running when a later one
    started (its time is not its parent's), and one that ends exactly when its
    sibling starts.
    """
    root = trace.root
    segments: list[Segment] = []
    pending: list[_Window | Segment] = [_Window(root, root.start_ns, root.end_ns)]
    while pending:
        piece = pending.pop()
        if isinstance(piece, Segment):
            _append(segments, piece)
        else:
            pending.extend(reversed(list(_divided(trace, piece))))
    return tuple(segments)


def _divided(trace: Trace, window: _Window) -> Iterator[_Window | Segment]:
    """What a window of a span consists of, in order of time."""
    span, origin_ns = window.span, trace.root.start_ns
    claims = _claims(
        trace.children.get(span.span_id, ()), trace.intervals.get(span.span_id, ()), window
    )
    for start_ns, end_ns, holder in _held(claims, window.start_ns, window.end_ns):
        if isinstance(holder, Span):
            yield _Window(holder, start_ns, end_ns)
        else:
            yield Segment(
                start_ns=start_ns - origin_ns,
                end_ns=end_ns - origin_ns,
                stage=trace.stages[span.span_id] if holder is None else holder,
                span_id=span.span_id,
                name=span.name,
            )


def _claims(
    children: Iterable[Span], intervals: Iterable[Interval], window: _Window
) -> list[_Claim]:
    claims = [
        _Claim(
            child.start_ns,
            child.end_ns,
            child,
            (1, -child.end_ns, -child.start_ns, child.span_id),
        )
        for child in children
        if child.start_ns < window.end_ns and child.end_ns > window.start_ns
    ]
    claims += [
        _Claim(
            interval.start_ns,
            interval.end_ns,
            interval.stage,
            (0, -interval.end_ns, -interval.start_ns, _STAGE_ORDER[interval.stage]),
        )
        for interval in intervals
        if interval.start_ns < window.end_ns and interval.end_ns > window.start_ns
    ]
    claims.sort(key=lambda claim: claim.start_ns)
    return claims


def _held(
    claims: list[_Claim], start_ns: int, end_ns: int
) -> Iterator[tuple[int, int, Span | Stage | None]]:
    """Cut `[start_ns, end_ns)` into stretches by who holds them; None: nobody runs."""
    running: list[tuple[tuple[int, int, int, str], int, _Claim]] = []
    holder: _Claim | None = None
    held_from_ns = at_ns = start_ns
    following = 0
    while at_ns < end_ns:
        while following < len(claims) and claims[following].start_ns <= at_ns:
            heappush(running, (claims[following].rank, following, claims[following]))
            following += 1
        while running and running[0][2].end_ns <= at_ns:
            heappop(running)
        next_holder = running[0][2] if running else None
        if next_holder is not holder:
            if at_ns > held_from_ns:
                yield held_from_ns, at_ns, None if holder is None else holder.holder
            holder, held_from_ns = next_holder, at_ns
        until_ns = claims[following].start_ns if following < len(claims) else end_ns
        if holder is not None:
            until_ns = min(until_ns, holder.end_ns)
        at_ns = min(until_ns, end_ns)
    yield held_from_ns, end_ns, None if holder is None else holder.holder


def _append(segments: list[Segment], segment: Segment) -> None:
    """Add a segment at the end, joined with the one before where both are the same's."""
    if segments:
        last = segments[-1]
        if last.span_id == segment.span_id and last.stage == segment.stage:
            segments[-1] = Segment(
                start_ns=last.start_ns,
                end_ns=segment.end_ns,
                stage=last.stage,
                span_id=last.span_id,
                name=last.name,
            )
            return
    segments.append(segment)
