"""From a heap of spans to one well-formed tree a request."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from latencytrace.analysis.repairs.cycles import cut_cycles
from latencytrace.analysis.repairs.duplicates import without_duplicates
from latencytrace.analysis.repairs.intervals import intervals_within
from latencytrace.analysis.repairs.negative import without_negative
from latencytrace.analysis.repairs.orphans import adopt_orphans
from latencytrace.analysis.repairs.outside import clipped
from latencytrace.analysis.stage_of import stage_of
from latencytrace.model import Interval, Repair, Span, SpanKind, Stage, Trace


def build_traces(spans: Iterable[Span]) -> tuple[Trace, ...]:
    """Build a tree for each request of one trace.

    Args:
        spans: Any heap of spans of one trace id, in any order.

    Returns:
        One `Trace` a request, in order of start: each root span, and each server span
        whose parent belongs to another service or is not there. None, if no request
        has arrived. Repaired, so that every child lies within its parent.
    """
    heap, duplicates = without_duplicates(spans)
    heap, negative = without_negative(heap)
    cut, cycles = cut_cycles(heap)
    parents, orphans = adopt_orphans(heap, cut)
    children: dict[str, list[str]] = defaultdict(list)
    for span_id, parent_id in parents.items():
        if parent_id is not None:
            children[parent_id].append(span_id)
    mended = [*duplicates, *negative, *cycles, *orphans]
    stages = _stages(heap, parents, children)
    roots = [span_id for span_id in parents if _is_request(heap, parents, span_id)]
    traces = [
        _request_tree(heap[root], parents[root] is None, heap, children, stages, mended)
        for root in roots
    ]
    return tuple(
        sorted(
            traces,
            key=lambda trace: (not trace.outermost, trace.root.start_ns, trace.root.span_id),
        )
    )


def _is_request(heap: Mapping[str, Span], parents: Mapping[str, str | None], span_id: str) -> bool:
    parent_id = parents[span_id]
    if parent_id is None:
        return True
    span = heap[span_id]
    return span.kind is SpanKind.SERVER and heap[parent_id].service != span.service


def _stages(
    heap: Mapping[str, Span],
    parents: Mapping[str, str | None],
    children: Mapping[str, list[str]],
) -> dict[str, Stage]:
    """The stage of each span by its id.

    A client span whose server we cannot see is part of what it was called for: a
    vector search made over HTTP is `retrieve`, not `network`.
    """
    stages = {span_id: stage_of(heap[span_id]) for span_id in parents}
    for span_id, stage in list(stages.items()):
        if stage is not Stage.NETWORK or heap[span_id].kind is not SpanKind.CLIENT:
            continue
        if any(heap[child].kind is SpanKind.SERVER for child in children.get(span_id, ())):
            continue
        parent_id = parents[span_id]
        if parent_id is not None and stages[parent_id].explains:
            stages[span_id] = stages[parent_id]
    return stages


def _request_tree(  # noqa: PLR0913, PLR0917 - the heap and what was found out about it
    root: Span,
    outermost: bool,  # noqa: FBT001
    heap: Mapping[str, Span],
    children: Mapping[str, list[str]],
    stages: Mapping[str, Stage],
    mended: list[Repair],
) -> Trace:
    """The subtree below one request, clipped from the top down."""
    within: dict[str, Span] = {}
    tree: dict[str, tuple[Span, ...]] = {}
    intervals: dict[str, tuple[Interval, ...]] = {}
    repairs: list[Repair] = []
    pending = [root]
    while pending:
        span = pending.pop()
        within[span.span_id] = span
        found, unreadable = intervals_within(span, heap[span.span_id].start_ns)
        if found:
            intervals[span.span_id] = found
        if unreadable is not None:
            repairs.append(unreadable)
        below = []
        for child_id in children.get(span.span_id, ()):
            child, repair = clipped(heap[child_id], span)
            below.append(child)
            if repair is not None:
                repairs.append(repair)
        if below:
            tree[span.span_id] = tuple(below)
            pending.extend(below)
    repairs += [repair for repair in mended if repair.span_id in within]
    return Trace(
        root=root,
        outermost=outermost,
        spans=within,
        children=tree,
        stages={span_id: stages[span_id] for span_id in within},
        intervals=intervals,
        repairs=tuple(sorted(repairs, key=lambda repair: (repair.kind, repair.span_id))),
    )
