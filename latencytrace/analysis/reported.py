"""Time that engines, proxies and clients report in attributes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from latencytrace.analysis.repairs.clipping import Intervals, carrying
from latencytrace.analysis.trace.is_request import ENTRY_KINDS
from latencytrace.analysis.trace.known_engines import engine_of, have_engines
from latencytrace.model import (
    Interval,
    Repair,
    RepairKind,
    Segment,
    Span,
    SpanKind,
    Stage,
    Trace,
    semconv,
)
from latencytrace.model.packed import unpack_named

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
        spans: Spans of one request, by span id, each parent before its children, all clipped.
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
        if (engine := engine_of(span)) is not None and engine.may_tell_times(span)
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


PHASES = ("connect", "tls", "send", "wait", "receive")
UNTRACED = "untraced"  # a whole call whose client reported none, of a server without spans
OTHER = "other"  # no phase that its client reported: waiting for a connection, most often


def network_phases(trace: Trace, segments: Iterable[Segment]) -> dict[str, int]:
    """Split the critical path's network time by what the calling client reported.

    Args:
        segments: Critical path of the request.

    Returns:
        Nanoseconds by phase, `PHASES` in order, `UNTRACED`, then `OTHER`; they add up to the
        ledger's network time. `wait` is that for the first byte of the answer, less the time that
        the server's own span explains: the way there and back, and what comes before it.
    """
    spent: dict[str, int] = defaultdict(int)
    for segment in segments:
        if segment.stage is not Stage.NETWORK:
            continue
        left_ns = segment.end_ns - segment.start_ns
        for phase, start_ns, end_ns in _phases(trace, segment.span_id):
            within_ns = min(end_ns, trace.root.start_ns + segment.end_ns) - max(
                start_ns, trace.root.start_ns + segment.start_ns
            )
            if 0 < within_ns <= left_ns:
                spent[phase] += within_ns
                left_ns -= within_ns
        spent[OTHER] += left_ns
    return {phase: spent[phase] for phase in (*PHASES, UNTRACED, OTHER) if spent[phase]}


def _phases(trace: Trace, span_id: str) -> Iterator[tuple[str, int, int]]:
    span = trace.unclipped.get(span_id)
    if span is None:
        return
    packed = span.attributes.get(semconv.NETWORK_PHASES)
    if not isinstance(packed, str):
        below = trace.children.get(span_id, ())
        if span.kind is SpanKind.CLIENT and all(one.service == span.service for one in below):
            yield UNTRACED, span.start_ns, span.end_ns
        return
    try:
        reported = list(unpack_named(packed, span.start_ns))
    except ValueError:  # whatever a sender calls phases
        return
    yield from ((phase, start, end) for phase, start, end in reported if phase in PHASES)


MAX_QUEUED_NS = 600_000_000_000


def with_proxy_queue(
    spans: Mapping[str, Span], intervals: Mapping[str, Intervals]
) -> tuple[dict[str, Span], dict[str, Intervals]]:
    """Let the requests that a front proxy held back begin when it took them.

    The time from there to the server span (`latencytrace.queued_ns`, from `X-Request-Start`)
    is an interval of stage `queue`, and part of the time to the first token.

    Args:
        spans: By span id.
        intervals: Intervals packed on the spans, by span id, absolute.

    Returns:
        The same, longer at their front where they were held back.
    """
    longer = dict(spans)
    more = dict(intervals)
    for span_id, span in spans.items():
        queued_ns = span.attributes.get(semconv.QUEUED_NS)
        if span.kind not in ENTRY_KINDS or type(queued_ns) is not int:
            continue
        if not 0 < queued_ns <= MAX_QUEUED_NS:
            continue
        began_ns = span.start_ns - queued_ns
        queue = Interval(stage=Stage.QUEUE, start_ns=began_ns, end_ns=span.start_ns)
        more[span_id] = (queue, *intervals.get(span_id, ()))
        longer[span_id] = begun_earlier(span, more[span_id])
    return longer, more


def begun_earlier(span: Span, intervals: Intervals) -> Span:
    """The span, begun with the first of its intervals; what counts from its start moves along."""
    began_ns = intervals[0].start_ns
    attributes = {key: value for key, value in span.attributes.items() if key != semconv.QUEUED_NS}
    first = attributes.get(semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK)
    if isinstance(first, int | float):
        earlier_s = (span.start_ns - began_ns) / 1e9
        attributes[semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK] = first + earlier_s
    first_body = attributes.get(semconv.STREAMED_FIRST_BODY)
    if isinstance(first_body, int):
        attributes[semconv.STREAMED_FIRST_BODY] = first_body + span.start_ns - began_ns
    return carrying(replace(span, start_ns=began_ns, attributes=attributes), intervals)
