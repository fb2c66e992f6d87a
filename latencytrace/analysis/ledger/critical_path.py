"""The span and the stage that each instant of a request belongs to."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from latencytrace.analysis.trace.asgi_messages import is_send
from latencytrace.model import Interval, Segment, Span, Stage, StageTimes, Trace

_STAGE_ORDER = {stage: place for place, stage in enumerate(Stage)}


_OWN, _DIVIDE = -1, 0


class _Part(NamedTuple):
    """A part of a span's time, its own or a child's."""

    start_ns: int
    end_ns: int
    span: Span
    stage: Stage
    track: int = _OWN  # else the child's, to be walked; above 0: where its stretches will be

    def between(self, start_ns: int, end_ns: int) -> "_Part":
        """The same at another time: three times as fast as `_replace`."""
        return _Part(start_ns, end_ns, self.span, self.stage, self.track)


def critical_path(trace: Trace) -> tuple[Segment, ...]:
    """Charge each nanosecond of a request to the span that held it up.

    Within a span, go back from its end `at`: take the child that ended last among those
    that ended by `at`, and go into it; what lies between its end and `at` is a gap; go on
    from its start. A gap belongs to the child that runs on beside it and ends last, over
    the time it runs; then to a child that outlives its parent, for nothing can have waited
    for it; to the span itself only where none of its children runs. Ties go to the later
    start, then the smaller span id. The intervals packed on a span win over the span and
    all that lies below it; where intervals of one span overlap, the later end, the later
    start and the order of stages decide.

    Args:
        trace: Every child lies within its parent, as `build_trace` makes it.

    Returns:
        Segments relative to the request's start, in order of time, without gap or
        overlap, neighbours of one span and stage joined. Their lengths add up to
        exactly the length of `trace.root`.

    Source: Zhang et al., "CRISP: Critical Path Analysis of Large-Scale
    Microservice Architectures", USENIX ATC 2022, and Jaeger's critical path.
    Unlike both we fill the gaps: what runs on beside one is followed, for its time
    is not its parent's; unlike Jaeger, a child that ends exactly when its sibling
    starts is followed.
    """
    origin_ns = trace.root.start_ns
    return tuple(
        Segment(
            start_ns=start_ns - origin_ns,
            end_ns=end_ns - origin_ns,
            stage=stage,
            span_id=span.span_id,
            name=span.name,
        )
        for start_ns, end_ns, span, stage, _ in _joined(_stretches(trace))
    )


def _walk(
    span: Span, awaited: Sequence[Span], outliving: Sequence[Span]
) -> Iterator[tuple[int, int, Span]]:
    """The rule: which child, or the span itself, holds each part of a span, back from its end."""
    running = [_in_turn(awaited), _in_turn(outliving)]
    at_ns = span.end_ns
    for child in _last_ended_first(awaited):
        if child.end_ns <= at_ns:
            yield from _gap(child.end_ns, at_ns, running, span)
            yield child.start_ns, child.end_ns, child
            at_ns = child.start_ns
    yield from _gap(span.start_ns, at_ns, running, span)


def _gap(
    start_ns: int, at_ns: int, running: Iterable[list[Span]], span: Span
) -> Iterator[tuple[int, int, Span]]:
    for beside in running:
        while beside and start_ns < at_ns and start_ns < beside[-1].end_ns:
            begin_ns = max(beside[-1].start_ns, start_ns)
            if begin_ns < at_ns:
                yield begin_ns, at_ns, beside[-1]
                at_ns = begin_ns
            if begin_ns > start_ns:
                beside.pop()  # it does not reach back into an earlier gap
    if start_ns < at_ns:
        yield start_ns, at_ns, span


def _last_ended_first(children: Iterable[Span]) -> list[Span]:
    by_id = sorted(children, key=lambda child: child.span_id)
    return sorted(by_id, key=lambda child: (-child.end_ns, -child.start_ns))


def _in_turn(children: Iterable[Span]) -> list[Span]:
    """In order of start, the children that end later than all before them."""
    found: list[Span] = []
    for child in sorted(children, key=lambda child: (child.start_ns, child.span_id)):
        if not found or (child.end_ns, child.start_ns) > (found[-1].end_ns, found[-1].start_ns):
            found.append(child)
    return found


def _stretches(trace: Trace) -> list[_Part]:
    """The path in order of time: each span is walked once, however many parts of it count.

    A span of which parts lie apart has a track of its own, from the first of them to the
    last. So no deep tree is gone down again for each of many gaps that it fills.
    """
    root = trace.root
    wanted = [_Part(root.start_ns, root.end_ns, root, trace.stages[root.span_id], _DIVIDE)]
    tracks: list[list[_Part]] = []
    while len(tracks) < len(wanted):
        tracks.append(_track(trace, wanted[len(tracks)], wanted))
    for number in reversed(range(len(tracks))):
        whole: list[_Part] = []
        for part in tracks[number]:
            whole += _between(tracks[part.track], part) if part.track > 0 else (part,)
        for part in tracks[number]:
            if part.track > 0:
                tracks[part.track] = []  # no other part needs it
        tracks[number] = whole
    return tracks[0]


def _track(trace: Trace, whole: _Part, wanted: list[_Part]) -> list[_Part]:
    """Walk a span as far as can be; add to `wanted` the spans of which parts lie apart."""
    track = []
    pending = [whole]
    while pending:
        held = pending.pop()
        if held.track != _DIVIDE:
            track.append(held)
            continue
        parts = _walked(trace, held)
        times = Counter(part.span.span_id for part in parts if part.track == _DIVIDE)
        places: dict[str, int] = {}
        for part in reversed(parts):
            span_id = part.span.span_id
            if part.track != _DIVIDE or times[span_id] == 1:
                pending.append(part)
                continue
            if span_id not in places:
                places[span_id] = len(wanted)
                wanted.append(part)
            place = places[span_id]
            wanted[place] = part.between(part.start_ns, wanted[place].end_ns)
            pending.append(_Part(part.start_ns, part.end_ns, part.span, part.stage, place))
    return track


def _walked(trace: Trace, held: _Part) -> list[_Part]:
    """The parts of what is wanted of a span, in order of time."""
    span = held.span
    own = trace.stages[span.span_id]
    children: tuple[list[Span], list[Span]] = ([], [])
    for child in trace.children.get(span.span_id, ()):
        if child.start_ns < child.end_ns:  # what took no time holds nothing up
            children[trace.outlives(child, span)].append(child)
    intervals = trace.intervals.get(span.span_id, ())
    if not any(children) and not intervals:
        return [_Part(held.start_ns, held.end_ns, span, own)]
    parts = [
        _Part(start_ns, end_ns, span, own)
        if holder is span
        else _Part(start_ns, end_ns, holder, trace.stages[holder.span_id], _DIVIDE)
        for start_ns, end_ns, holder in _walk(span, *children)
    ]
    parts.reverse()
    if intervals:
        parts = _overlaid(parts, list(_won(intervals, span)))
    if (span.start_ns, span.end_ns) == (held.start_ns, held.end_ns):
        return parts
    return _between(parts, held)


def _between(parts: Sequence[_Part], window: _Part) -> list[_Part]:
    """Return what of parts, in order of time, lies within the time of another."""
    first = bisect_right(parts, window.start_ns, key=_start_ns) - 1
    within = list(parts[first : bisect_left(parts, window.end_ns, key=_start_ns)])
    if within:
        within[0] = within[0].between(window.start_ns, within[0].end_ns)
        within[-1] = within[-1].between(within[-1].start_ns, window.end_ns)
    return within


def _start_ns(part: _Part) -> int:
    return part.start_ns


def _won(intervals: Iterable[Interval], span: Span) -> Iterator[_Part]:
    """Yield what each of the intervals packed on a span gets, in order of time."""
    waiting = sorted(intervals, key=lambda interval: -interval.start_ns)
    running: list[tuple[int, int, int, int, Interval]] = []
    at_ns = 0
    while waiting or running:
        if not running:
            at_ns = waiting[-1].start_ns
        while waiting and waiting[-1].start_ns <= at_ns:
            one = waiting.pop()
            place = _STAGE_ORDER[one.stage]
            heappush(running, (-one.end_ns, -one.start_ns, place, len(waiting), one))
        winner = running[0][-1]
        until_ns = min(winner.end_ns, waiting[-1].start_ns if waiting else winner.end_ns)
        if until_ns <= at_ns:
            heappop(running)
            continue
        yield _Part(at_ns, until_ns, span, winner.stage)
        at_ns = until_ns


def _overlaid(below: Iterable[_Part], above: Sequence[_Part]) -> list[_Part]:
    """The parts below, but for the time that those above cover."""
    overlaid = []
    following = 0
    for part in below:
        at_ns = part.start_ns
        while following < len(above) and above[following].start_ns < part.end_ns:
            winner = above[following]
            if winner.start_ns > at_ns:
                overlaid.append(part.between(at_ns, winner.start_ns))
            until_ns = min(winner.end_ns, part.end_ns)
            overlaid.append(winner.between(max(winner.start_ns, at_ns), until_ns))
            at_ns = until_ns
            if winner.end_ns > part.end_ns:
                break  # it goes on into the next part
            following += 1
        if at_ns < part.end_ns:
            overlaid.append(part.between(at_ns, part.end_ns))
    return overlaid


def _joined(parts: Iterable[_Part]) -> list[_Part]:
    joined: list[_Part] = []
    for part in parts:
        if part.start_ns == part.end_ns:
            continue  # a request that took no time
        last = joined[-1] if joined else None
        if last is not None and last.span is part.span and last.stage is part.stage:
            joined[-1] = last.between(last.start_ns, part.end_ns)
        else:
            joined.append(part)
    return joined


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
