"""The ledger of what a request's spans went on with after its end: background tasks, threads."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.analysis.repairs.implausible import WEEK_NS
from latencytrace.analysis.trace.asgi_messages import awaits_hang_up
from latencytrace.model import Ledger, Span, Stage, Trace
from latencytrace.model.request import ledger_of

LEAST_NS: Final = 1_000_000  # less is no work after the answer: spans end a moment late
MOST_ABOVE: Final = 64  # spans that are tried, from a span up


def after_answer(trace: Trace, longest_ns: int = WEEK_NS) -> Ledger:
    """Divide the time from a request's end until the last of its spans has ended.

    The rule is that of the critical path, over a tree of what ended after the request: each
    span lies below the nearest one above it that ended no earlier, of the next `MOST_ABOVE`,
    or below the stretch itself, whose own time is unattributed. Left out are spans of
    another clock that stick out of their parents, whose time is uncertain; those that ended
    more than `longest_ns` after the request, for a clock was not set; waits for the caller to
    leave; work for messages whose sender did not wait; and all that is below these.

    Returns:
        Nanoseconds per stage that occurs, in their order, which add up to exactly that time;
        none, if it is less than `LEAST_NS`.
    """
    root = trace.unclipped[trace.root.span_id]
    left = {
        span.span_id: span
        for span in _timed(trace, root)
        if span.start_ns < span.end_ns and 0 < span.end_ns - root.end_ns <= longest_ns
    }
    idle_ns = max((span.end_ns for span in left.values()), default=root.end_ns)
    if idle_ns - root.end_ns < LEAST_NS:
        return {}
    stretch = replace(root, start_ns=root.end_ns, end_ns=idle_ns)
    spans = {root.span_id: stretch}
    children: dict[str, list[Span]] = {}
    for span in left.values():  # parents come first
        around = spans[_around(span, left, trace, root)]
        start_ns = min(max(span.start_ns, around.start_ns), span.end_ns)
        spans[span.span_id] = replace(span, start_ns=start_ns)
        children.setdefault(around.span_id, []).append(spans[span.span_id])
    ledger = ledger_of(
        critical_path(
            Trace(
                root=stretch,
                outermost=trace.outermost,
                spans=spans,
                unclipped=spans,
                children={span_id: _in_order(below) for span_id, below in children.items()},
                stages={**trace.stages, root.span_id: Stage.UNATTRIBUTED},
                intervals={},
            )
        )
    )
    return {stage: ledger[stage] for stage in Stage if stage in ledger}


def _timed(trace: Trace, root: Span) -> Iterable[Span]:
    """The spans below a request of which it is known when they ran, parents first."""
    pending = [root]
    while pending:
        above = pending.pop()
        for one in trace.children.get(above.span_id, ()):
            span = trace.unclipped[one.span_id]
            is_within = above.start_ns <= span.start_ns and span.end_ns <= above.end_ns
            if (
                (span.clock == above.clock or is_within)
                and span.span_id not in trace.unawaited
                and not awaits_hang_up(span, trace.children)
            ):
                yield span
                pending.append(span)


def _around(span: Span, left: dict[str, Span], trace: Trace, root: Span) -> str:
    """The id of the span that a span lies below after the request's end."""
    above = span.parent_id or ""
    for _ in range(MOST_ABOVE):
        if above == root.span_id:
            break
        if above in left and left[above].end_ns >= span.end_ns:
            return above
        above = trace.unclipped[above].parent_id or ""
    return root.span_id


def _in_order(children: Iterable[Span]) -> tuple[Span, ...]:
    return tuple(sorted(children, key=lambda one: (one.start_ns, one.end_ns, one.span_id)))
