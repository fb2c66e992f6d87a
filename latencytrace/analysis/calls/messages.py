"""Hangs the work that a message started below what awaited it, and tells how long it queued."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from latencytrace.analysis.calls.waits import works_itself
from latencytrace.analysis.repairs.clipping import Intervals, clipped, clipped_intervals
from latencytrace.analysis.repairs.implausible import WEEK_NS
from latencytrace.analysis.reported import begun_earlier
from latencytrace.analysis.trace.is_request import is_shared
from latencytrace.model import Interval, Span, SpanKind, Stage, Trace, semconv
from latencytrace.model.trace import parents_first

MAX_DEPTH = 64  # how far up we look for the span that awaited it
MAX_SIBLINGS = 1_000  # that began while a message queued; among more it waits for none
MESSAGES = frozenset({SpanKind.PRODUCER, SpanKind.CONSUMER})

_MOST_OF_IT = 0.9  # of a consumer: what it does once its answer has left is not awaited


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A forest in which each message's work has its place."""

    spans: dict[str, Span]  # by span id, each parent before its children
    intervals: dict[str, Intervals]
    unawaited: frozenset[str]  # consumers that no span waited for: requests of their own
    queued: Mapping[str, Interval]  # of each consumer the time until it took its message
    retried: Mapping[str, str]  # of consumers whose work was tried again: the next one's span id


def delivered(
    spans: Mapping[str, Span], intervals: Mapping[str, Intervals], longest_ns: int = WEEK_NS
) -> Delivered:
    """Find for each consumer's span the span that awaited it.

    A consumer outlives its producer by nature. It goes below the nearest span above the
    producer that still ran when its work was done; from the end of the producer to its start
    it waited in the queue. That is how messages are traced, so it is no repair to tell of.
    A consumer without parent that links to a span of the same trace counts as started by that.

    Args:
        spans: By span id, each parent before its children.
        intervals: Intervals packed on the spans, by span id, absolute.
        longest_ns: A message that seems to have waited longer did not: a clock was not set.
    """
    if not any(span.kind in MESSAGES for span in spans.values()):
        return Delivered(
            spans=dict(spans),
            intervals=dict(intervals),
            unawaited=frozenset(),
            queued={},
            retried={},
        )
    senders = _senders(spans)
    work_ends = _work_ends(spans.values())
    hung, packed = dict(spans), dict(intervals)
    queued: dict[str, Interval] = {}
    unawaited: set[str] = set()
    delivered_before: dict[tuple[str, str, str], int] = {}
    for span in sorted(spans.values(), key=_order):
        span_id = span.span_id
        sender = spans.get(senders.get(span_id) or "")
        if sender is None or not _is_message(span, sender):
            continue
        awaiting = _awaiting(span, work_ends.get(span_id, span.end_ns), senders, spans)
        if awaiting is None:
            if span.kind is not SpanKind.CONSUMER:
                continue
            unawaited.add(span_id)
        hung[span_id] = replace(span, parent_id=(awaiting or sender).span_id)
        if sender.kind is SpanKind.PRODUCER:
            delivery = (sender.span_id, span.service, span.name)
            sent_ns = max(sender.end_ns, delivered_before.get(delivery, 0))
            delivered_before[delivery] = max(sent_ns, span.end_ns)
            if 0 < span.start_ns - sent_ns <= longest_ns:
                queue = Interval(stage=Stage.QUEUE, start_ns=sent_ns, end_ns=span.start_ns)
                queued[span_id] = queue
                packed[span_id] = (queue, *packed.get(span_id, ()))
                hung[span_id] = begun_earlier(hung[span_id], packed[span_id])
    return Delivered(
        spans=parents_first(hung),
        intervals=packed,
        unawaited=frozenset(unawaited),
        queued=queued,
        retried=dict(_tried_again(spans)),
    )


def with_queues(trace: Trace, queued: Mapping[str, Interval]) -> Trace:
    """A trace in which no message that queued stands in the way of what began meanwhile.

    Of its wait the work that it started keeps what comes after other work that began in it.
    What is left of the wait is own time of the span that awaited it.

    Args:
        queued: Spans that messages started, and the time until they took them.
    """
    spans, intervals = dict(trace.spans), dict(trace.intervals)
    awaited: dict[str, int] = {}
    for span_id in sorted(queued.keys() & trace.spans.keys()):
        span, queue = trace.spans[span_id], queued[span_id]
        if span is trace.root or span.start_ns == span.end_ns or queue.end_ns <= span.start_ns:
            continue  # nothing of it, or of its wait, lies within the span that awaited it
        queue = queue._replace(start_ns=max(queue.start_ns, span.start_ns))
        awaited[span_id] = queue.start_ns
        shorter = replace(span, start_ns=_undisturbed_ns(trace, span, queue))
        spans[span_id], packed = clipped_intervals(span, shorter, intervals.pop(span_id, ()))
        if packed:
            intervals[span_id] = packed
    if not awaited:
        return trace
    moved: set[str | None] = {trace.spans[span_id].parent_id for span_id in awaited}
    for span_id in awaited:
        moved |= _cut_below(trace, span_id, spans, intervals)
    children = {
        parent_id: tuple(sorted((spans[one.span_id] for one in below), key=_order))
        if parent_id in moved
        else below
        for parent_id, below in trace.children.items()
    }
    return replace(trace, spans=spans, children=children, intervals=intervals, queued=awaited)


def _cut_below(
    trace: Trace, span_id: str, spans: dict[str, Span], intervals: dict[str, Intervals]
) -> set[str]:
    """Cut off what lies below a span and began before it took its message.

    Returns:
        The spans of which a child is another one now.
    """
    changed: set[str] = set()
    pending = [span_id]
    while pending:
        parent = spans[pending.pop()]
        for one in trace.children.get(parent.span_id, ()):
            child = spans[one.span_id]
            within, repair = clipped(child, parent)
            if repair is None:
                continue
            packed = intervals.pop(child.span_id, ())
            spans[child.span_id], packed = clipped_intervals(child, within, packed)
            if packed:
                intervals[child.span_id] = packed
            changed.add(parent.span_id)
            pending.append(child.span_id)
    return changed


def _undisturbed_ns(trace: Trace, span: Span, queue: Interval) -> int:
    """From when on nothing else ran that began while a message queued."""
    parent_id = span.parent_id or ""
    until_ns = min(queue.end_ns, span.end_ns)
    siblings = trace.children[parent_id]
    first = bisect_left(siblings, queue.start_ns, key=_start_ns)
    last = bisect_left(siblings, queue.end_ns, key=_start_ns)
    if works_itself(trace, parent_id) or last - first > MAX_SIBLINGS:
        return until_ns
    ends_ns = (
        one.end_ns
        for one in siblings[first:last]
        if one.span_id != span.span_id and one.start_ns < one.end_ns
    )
    return min(max((span.start_ns, *ends_ns)), until_ns)


def _start_ns(span: Span) -> int:
    return span.start_ns


def _senders(spans: Mapping[str, Span]) -> dict[str, str | None]:
    """Of each span its parent, or the span that it is linked to instead."""
    senders = {span_id: span.parent_id for span_id, span in spans.items()}
    for span in sorted(spans.values(), key=_order):
        if span.parent_id is None and span.kind is SpanKind.CONSUMER and not is_shared(span):
            linked = [
                spans[link.span_id]
                for link in span.links
                if link.trace_id == span.trace_id and link.span_id in spans
            ]
            for sender in sorted(linked, key=_rank):
                above = list(_above(sender.span_id, senders))
                if span.span_id not in above and len(above) <= MAX_DEPTH:
                    senders[span.span_id] = sender.span_id
                    break
    return senders


def _above(span_id: str | None, senders: Mapping[str, str | None]) -> Iterator[str]:
    """A span and those above it, one more than `MAX_DEPTH` at most."""
    for _ in range(MAX_DEPTH + 1):
        if span_id is None:
            return
        yield span_id
        span_id = senders[span_id]


def _rank(sender: Span) -> tuple[bool, int, str]:
    return (sender.kind is not SpanKind.PRODUCER, -sender.start_ns, sender.span_id)


def _order(span: Span) -> tuple[int, int, str]:
    return (span.start_ns, span.end_ns, span.span_id)


def _is_message(span: Span, sender: Span) -> bool:
    """Tell whether a message started a span, and its sender did not hold it in its own time."""
    if span.end_ns <= sender.end_ns and span.parent_id is not None:
        return False
    return span.kind is SpanKind.CONSUMER or (
        sender.kind is SpanKind.PRODUCER and span.start_ns >= sender.end_ns
    )


def _tried_again(spans: Mapping[str, Span]) -> Iterator[tuple[str, str]]:
    """Yield each consumer whose work was tried again, and the attempt after it, by span ids."""
    for span in spans.values():
        retries = span.attributes.get(semconv.RETRIES)
        before = spans.get(span.parent_id or "")
        if before is not None and type(retries) is int and retries > 0:
            names = (span.name, span.service, span.scope)
            is_work = span.kind is before.kind is SpanKind.CONSUMER
            if is_work and names == (before.name, before.service, before.scope):
                yield before.span_id, span.span_id


def _work_ends(spans: Iterable[Span]) -> dict[str, int]:
    """Return when the last child of each span ended."""
    ends: dict[str, int] = defaultdict(int)
    for span in spans:
        if span.parent_id is not None:
            ends[span.parent_id] = max(ends[span.parent_id], span.end_ns)
    return ends


def _awaiting(
    span: Span, work_end_ns: int, senders: Mapping[str, str | None], spans: Mapping[str, Span]
) -> Span | None:
    """The nearest span above that ran until the work was done, or for the most of it."""
    most_ns = span.start_ns + round((span.end_ns - span.start_ns) * _MOST_OF_IT)
    done_ns = min(work_end_ns, span.end_ns)
    for span_id in _above(senders[span.span_id], senders):
        if (
            spans[span_id].end_ns >= min(done_ns, most_ns)
            and spans[span_id].end_ns > span.start_ns
        ):
            return spans[span_id]
    return None
