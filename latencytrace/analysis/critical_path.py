"""Which span, and which stage, each instant of a request belongs to."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from latencytrace.model import Segment, Span, Stage, Trace

_STAGE_ORDER = {stage: place for place, stage in enumerate(Stage)}


class _Stretch(NamedTuple):
    """A stretch of time that is charged to one stage of one span."""

    start_ns: int
    end_ns: int
    stage: Stage
    span: Span

    def between(self, start_ns: int, end_ns: int) -> "_Stretch":
        """The same stage and span at another time: three times as fast as `_replace`."""
        return _Stretch(start_ns, end_ns, self.stage, self.span)


class _Claim(NamedTuple):
    """An interval packed on a span, cut to the time that this span is charged for."""

    start_ns: int
    rank: tuple[int, int, int, int]  # of the claims that run, the smallest holds the instant
    stretch: _Stretch


def critical_path(trace: Trace) -> tuple[Segment, ...]:
    """Charge each nanosecond of a request to the span that held it up.

    At each instant that a span holds, the time belongs to the child that was
    running and finishes last, recursively; to the span itself only while none of
    its children runs. Ties go to the later end, then the later start, then the
    smaller span id. The intervals packed on a span win over the span and all that
    lies below it; where intervals of one span overlap, the later end, the later
    start and the order of stages decide.

    Args:
        trace: Every child lies within its parent (see `analysis.build_trace`).

    Returns:
        Segments relative to the request's start, in order of time, without gap or
        overlap, neighbours of one span and stage joined. Their lengths add up to
        exactly the length of `trace.root`.

    Source: Zhang et al., "CRISP: Critical Path Analysis of Large-Scale
    Microservice Architectures", USENIX ATC 2022, and Jaeger's critical path.
    Unlike both we also follow a child that was still running when a later one
    started (its time is not its parent's), and, unlike Jaeger, one that ends
    exactly when its sibling starts.
    """
    origin_ns = trace.root.start_ns
    stretches, claims = _descent(trace)
    if claims:
        stretches = _overlaid(stretches, list(_won(claims)))
    return tuple(
        Segment(
            start_ns=stretch.start_ns - origin_ns,
            end_ns=stretch.end_ns - origin_ns,
            stage=stretch.stage,
            span_id=stretch.span.span_id,
            name=stretch.span.name,
        )
        for stretch in _joined(stretches)
    )


def _descent(trace: Trace) -> tuple[list[_Stretch], list[_Claim]]:
    """The path as if there were no intervals, and the claims of the intervals on it.

    A span holds one stretch at most, and holds it from its very start: what outranks it
    ends no earlier, so what has lost an instant never gets a later one.
    """
    stretches: list[_Stretch] = []
    claims: list[_Claim] = []
    root = trace.root
    pending: list[tuple[int, _Stretch]] = [
        (0, _Stretch(root.start_ns, root.end_ns, trace.stages[root.span_id], root))
    ]
    while pending:
        depth, held = pending.pop()
        children = trace.children.get(held.span.span_id, ()) if depth >= 0 else ()
        if depth >= 0:
            claims.extend(_claims(trace, held, depth))
        if not children:
            stretches.append(held)
            continue
        divided = [
            (-1, _Stretch(start_ns, end_ns, held.stage, held.span))
            if child is None
            else (depth + 1, _Stretch(start_ns, end_ns, trace.stages[child.span_id], child))
            for start_ns, end_ns, child in _divided(children, held.start_ns, held.end_ns)
        ]
        pending.extend(reversed(divided))
    return stretches, claims


def _divided(
    children: Iterable[Span], start_ns: int, end_ns: int
) -> Iterator[tuple[int, int, Span | None]]:
    """Cut `[start_ns, end_ns)` into stretches by the child that holds them; None: none runs."""
    holders = list(_holders(children, end_ns))
    takeovers_ns = [*(holder.start_ns for holder in holders), end_ns][1:]
    at_ns = start_ns
    for holder, takeover_ns in zip(holders, takeovers_ns, strict=True):
        if holder.start_ns > at_ns:
            yield at_ns, holder.start_ns, None
        at_ns = min(holder.end_ns, takeover_ns)
        if at_ns > holder.start_ns:
            yield holder.start_ns, at_ns, holder
    if end_ns > at_ns:
        yield at_ns, end_ns, None


def _holders(children: Iterable[Span], end_ns: int) -> Iterator[Span]:
    """The children that take over from each other, or from nobody, before `end_ns`."""
    holder: Span | None = None
    for child in sorted(children, key=lambda child: (child.start_ns, child.span_id)):
        if child.start_ns >= min(child.end_ns, end_ns):
            continue
        if holder is None or _outranks(child, holder):
            holder = child
            yield child


def _outranks(later: Span, earlier: Span) -> bool:
    """Whether a span wins over one before it: that of a smaller id, if it started as late."""
    return (later.end_ns, later.start_ns) > (earlier.end_ns, earlier.start_ns)


def _claims(trace: Trace, held: _Stretch, depth: int) -> Iterator[_Claim]:
    for interval in trace.intervals.get(held.span.span_id, ()):
        end_ns = min(interval.end_ns, held.end_ns)
        if interval.start_ns < end_ns:
            yield _Claim(
                interval.start_ns,
                (depth, -interval.end_ns, -interval.start_ns, _STAGE_ORDER[interval.stage]),
                _Stretch(interval.start_ns, end_ns, interval.stage, held.span),
            )


def _won(claims: list[_Claim]) -> Iterator[_Stretch]:
    """What the intervals get, in order of time: those of the span nearest the root win."""
    claims.sort(key=lambda claim: claim.start_ns)
    running: list[tuple[tuple[int, int, int, int], int, _Stretch]] = []
    following, at_ns = 0, 0
    while following < len(claims) or running:
        if not running:
            at_ns = claims[following].start_ns
        while following < len(claims) and claims[following].start_ns <= at_ns:
            heappush(running, (claims[following].rank, following, claims[following].stretch))
            following += 1
        stretch = running[0][2]
        if stretch.end_ns <= at_ns:
            heappop(running)
            continue
        until_ns = stretch.end_ns
        if following < len(claims):
            until_ns = min(until_ns, claims[following].start_ns)
        yield stretch.between(at_ns, until_ns)
        at_ns = until_ns


def _overlaid(below: Sequence[_Stretch], above: Sequence[_Stretch]) -> list[_Stretch]:
    """The stretches below, but for the time that those above cover."""
    overlaid = []
    following = 0
    for stretch in below:
        at_ns = stretch.start_ns
        while following < len(above) and above[following].start_ns < stretch.end_ns:
            winner = above[following]
            if winner.start_ns > at_ns:
                overlaid.append(stretch.between(at_ns, winner.start_ns))
            until_ns = min(winner.end_ns, stretch.end_ns)
            overlaid.append(winner.between(max(winner.start_ns, at_ns), until_ns))
            at_ns = until_ns
            if winner.end_ns > stretch.end_ns:
                break  # it goes on into the next stretch
            following += 1
        if at_ns < stretch.end_ns:
            overlaid.append(stretch.between(at_ns, stretch.end_ns))
    return overlaid


def _joined(stretches: Iterable[_Stretch]) -> list[_Stretch]:
    joined: list[_Stretch] = []
    for stretch in stretches:
        if stretch.start_ns == stretch.end_ns:
            continue  # a request that took no time
        last = joined[-1] if joined else None
        if last is not None and last.span is stretch.span and last.stage is stretch.stage:
            joined[-1] = stretch.between(last.start_ns, stretch.end_ns)
        else:
            joined.append(stretch)
    return joined
