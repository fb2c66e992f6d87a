"""From unordered spans to one well-formed tree a request."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from latencytrace.analysis.calls.messages import delivered, with_queues
from latencytrace.analysis.calls.retries import have_failed_calls, with_retries
from latencytrace.analysis.gpu.shared_steps import with_steps
from latencytrace.analysis.repairs.callbacks import handed_over, hung_inside
from latencytrace.analysis.repairs.clipping import (
    Intervals,
    clipped,
    clipped_intervals,
    ran_afterwards,
    read_intervals,
)
from latencytrace.analysis.repairs.clock_skew import aligned
from latencytrace.analysis.repairs.duplicates import without_duplicates
from latencytrace.analysis.repairs.implausible import (
    PLAUSIBLE,
    UNTIMED,
    Plausible,
    out_of_time,
    without_implausible,
)
from latencytrace.analysis.repairs.orphans import adopt_orphans, cut_cycles
from latencytrace.analysis.repairs.outliving import outliving
from latencytrace.analysis.reported import reported_durations, with_proxy_queue
from latencytrace.analysis.trace.asgi_messages import awaits_hang_up, with_messages
from latencytrace.analysis.trace.is_request import is_request
from latencytrace.analysis.trace.known_engines import as_it_ran, have_engines
from latencytrace.analysis.trace.purposes import with_purposes, within_calls
from latencytrace.analysis.trace.stage_of import stage_of
from latencytrace.model import Interval, Repair, Span, Stage, Trace

# A request inside another costs its whole subtree again; a service graph is never deeper
# or larger than this, but what a stranger sends may be.
MAX_NESTED_REQUESTS = 32
MAX_NESTED_SPANS = 100_000  # in all inner requests of a trace, counted again in each
MAX_REPAIRS_OF_A_KIND = 20  # listed one by one; the others of a request are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Forest:
    """All trees of one trace id, in which no child is clipped to its parent yet."""

    spans: dict[str, Span]  # by span id, each parent before its children
    children: Mapping[str, list[Span]]
    stages: Mapping[str, Stage]
    intervals: Mapping[str, Intervals]  # as they were sent
    repairs: Mapping[str, list[Repair]]  # by span id
    calls_failed: bool  # whether any did
    unawaited: frozenset[str]  # consumers' spans that no span waited for
    queued: Mapping[str, Interval]  # until consumers took their messages
    retried: Mapping[str, str]  # consumers whose work was tried again: the next one


def build_traces(
    spans: Iterable[Span], *, rootless: bool = False, plausible: Plausible = PLAUSIBLE
) -> tuple[Trace, ...]:
    """Build a tree for each request of one trace id.

    Args:
        spans: Spans of one trace id, in any order.
        rootless: The root, if it is not among them, will not come any more.
        plausible: The times that are believed.

    Returns:
        One `Trace` a request, the outermost ones first, in order of
        start. None, if no request has arrived. Repaired, so that every child lies
        within its parent; an inner request is clipped by no span above it. Requests
        inside more than `MAX_NESTED_REQUESTS` others, and those beyond
        `MAX_NESTED_SPANS`, the outer ones first, are left to those.
    """
    forest = _forest(spans, rootless=rootless, longest_ns=plausible.longest_ns)
    traces = [_tree(forest, root, plausible) for root in _requests(forest)]
    if forest.queued:
        traces = [with_queues(trace, forest.queued) for trace in traces]
    if forest.calls_failed or forest.retried:
        traces = [with_retries(trace, forest.retried) for trace in traces]
    return tuple(
        sorted(
            traces,
            key=lambda trace: (not trace.outermost, trace.root.start_ns, trace.root.span_id),
        )
    )


def _forest(found: Iterable[Span], *, rootless: bool, longest_ns: int) -> _Forest:
    """Mend what can be mended without clipping, in the order in which it must be."""
    spans, duplicates = without_duplicates(found)
    if have_engines(spans.values()):
        spans = {span_id: as_it_ran(span) for span_id, span in spans.items()}
    # Before clocks are brought together by them.
    spans, implausible = without_implausible(spans, longest_ns)
    cut, cycles = cut_cycles(spans)
    spans, skewed = aligned(spans, cut)
    adopted = adopt_orphans(spans, cut, rootless=rootless)
    spans = adopted.spans
    if adopted.apart:
        spans, more = aligned(spans, ())
        skewed += more
    spans, intervals, unreadable = read_intervals(spans)
    spans, intervals = with_proxy_queue(spans, intervals)
    spans = handed_over(outliving(hung_inside(spans)))
    messages = delivered(spans, intervals, longest_ns)
    spans, intervals = messages.spans, messages.intervals
    repairs = defaultdict(list)
    for repair in (
        *duplicates,
        *implausible,
        *unreadable,
        *cycles,
        *skewed,
        *adopted.repairs,
    ):
        repairs[repair.span_id].append(repair)
    children = defaultdict(list)
    for span in spans.values():
        if span.parent_id is not None:
            children[span.parent_id].append(span)
    stages = with_steps(spans, {id_: stage_of(span) for id_, span in spans.items()})
    return _Forest(
        spans=spans,
        children=children,
        stages=with_purposes(spans, stages),
        intervals=intervals,
        repairs=repairs,
        calls_failed=have_failed_calls(spans.values()),
        unawaited=messages.unawaited,
        queued=messages.queued,
        retried=messages.retried,
    )


def _requests(forest: _Forest) -> Iterator[Span]:
    """The outermost requests, and of the inner ones as many as may be attributed."""
    around: dict[str, int] = {}  # how many requests a span lies in, by span id
    found: list[tuple[int, int, str]] = []
    for span_id, span in forest.spans.items():
        parent = None if span.parent_id is None else forest.spans[span.parent_id]
        around[span_id] = 0 if parent is None else around[parent.span_id]
        if is_request(span, parent) or span_id in forest.unawaited:
            if around[span_id] <= MAX_NESTED_REQUESTS:
                found.append((around[span_id], span.start_ns, span_id))
            around[span_id] += 1
    sizes = _sizes(forest.spans) if any(depth for depth, _, _ in found) else {}
    nested = 0
    for depth, _, span_id in sorted(found):
        if depth:
            if nested + sizes[span_id] > MAX_NESTED_SPANS:
                continue
            nested += sizes[span_id]
        yield forest.spans[span_id]


def _sizes(spans: dict[str, Span]) -> dict[str, int]:
    """Return how many spans each span's subtree has."""
    sizes = dict.fromkeys(spans, 1)
    for span in reversed(spans.values()):  # children before their parents
        if span.parent_id is not None:
            sizes[span.parent_id] += sizes[span.span_id]
    return sizes


def _tree(forest: _Forest, root: Span, plausible: Plausible) -> Trace:
    """The subtree below one request, clipped from the top down."""
    spans: dict[str, Span] = {}
    unclipped: dict[str, Span] = {}
    children: dict[str, tuple[Span, ...]] = {}
    intervals: dict[str, Intervals] = {}
    repairs: list[Repair] = []
    beyond: set[str] = set()  # what no span waited for

    def within(span: Span, parent: Span | None) -> Span:
        sent = unclipped[span.span_id] = span
        repairs.extend(forest.repairs.get(span.span_id, ()))
        if parent is not None and (span.span_id in forest.unawaited or parent.span_id in beyond):
            beyond.add(span.span_id)
            span = _emptied(span, parent)
        elif parent is not None:
            span, repair = clipped(span, parent)
            is_fine = awaits_hang_up(sent, forest.children) or ran_afterwards(sent, parent)
            repairs.extend(() if repair is None or is_fine else (repair,))
        if span.span_id in forest.intervals:
            span, packed = clipped_intervals(sent, span, forest.intervals[span.span_id])
            if packed:
                intervals[span.span_id] = packed
        spans[span.span_id] = span
        return span

    wrong_time = out_of_time(root, plausible)
    outermost = root.parent_id is None
    root = within(root, None)
    repairs.extend(() if wrong_time is None else (wrong_time,))
    was_mended = any(one.kind in UNTIMED for one in repairs)
    pending = [root]
    while pending:
        parent = pending.pop()
        if parent.span_id not in forest.children:
            continue
        below = [within(child, parent) for child in forest.children[parent.span_id]]
        below.sort(key=lambda child: (child.start_ns, child.end_ns, child.span_id))
        children[parent.span_id] = tuple(below)
        pending.extend(below)
    stages = {span_id: forest.stages[span_id] for span_id in spans}
    spans, children, intervals = with_messages(spans, children, stages, intervals)
    reported, unlikely = reported_durations(spans, unclipped, children, stages, intervals)
    return Trace(
        root=root,
        outermost=outermost,
        spans=spans,
        unclipped=unclipped,
        children=children,
        stages=within_calls(spans, stages),
        intervals=reported,
        repairs=_listed((*repairs, *unlikely), root),
        is_timed=not (wrong_time or (was_mended and root.start_ns == root.end_ns)),
        unawaited=frozenset(beyond),
    )


def _emptied(span: Span, parent: Span) -> Span:
    """Return what took none of its parent's time."""
    at_ns = min(max(span.start_ns, parent.start_ns), parent.end_ns)
    return replace(span, start_ns=at_ns, end_ns=at_ns)


def _listed(repairs: Iterable[Repair], root: Span) -> tuple[Repair, ...]:
    listed: list[Repair] = []
    in_order = sorted(repairs, key=lambda repair: (repair.kind, repair.span_id))
    for kind, repairs_of_kind in groupby(in_order, key=lambda repair: repair.kind):
        alike = list(repairs_of_kind)
        listed += alike[:MAX_REPAIRS_OF_A_KIND]
        more = len(alike) - MAX_REPAIRS_OF_A_KIND
        if more > 0:
            listed.append(Repair(kind=kind, span_id=root.span_id, detail=f"and {more} more"))
    return tuple(listed)
