"""Gives spans of years another time: those whose start or end was never set."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from latencytrace.model import Repair, RepairKind, Span, Trace
from latencytrace.model.texts.units import duration

LONGEST_NS: Final = 7 * 86_400 * 10**9  # of a span; what lasts longer was not timed
_EARLIEST_NS: Final = 946_684_800 * 10**9  # the year 2000: a start before it was never set


def without_implausible(spans: dict[str, Span]) -> tuple[dict[str, Span], list[Repair]]:
    """The same spans; those that last longer than `LONGEST_NS` last as long as their children.

    One whose start cannot be keeps its end, any other its start. Without children that lie near
    that, it is empty there.
    """
    absurd = [span for span in spans.values() if span.end_ns - span.start_ns > LONGEST_NS]
    if not absurd:
        return spans, []
    children: dict[str | None, list[Span]] = defaultdict(list)
    for span in spans.values():
        children[span.parent_id].append(span)
    mended = dict(spans)
    repairs = []
    for span in absurd:
        mended[span.span_id] = found = _as_children(span, children)
        repairs.append(
            Repair(
                kind=RepairKind.IMPLAUSIBLE,
                span_id=span.span_id,
                detail=(
                    f"{span.name} lasted {duration(span.end_ns - span.start_ns)}, which cannot "
                    f"be; it lasts {duration(found.end_ns - found.start_ns)} now"
                ),
            )
        )
    return mended, repairs


def is_untimed(trace: Trace) -> bool:
    """Return whether the duration of a request is unknown: its time was mended to none."""
    root = trace.root
    return root.start_ns == root.end_ns and any(
        repair.kind is RepairKind.IMPLAUSIBLE and repair.span_id == root.span_id
        for repair in trace.repairs
    )


def _as_children(span: Span, children: Mapping[str | None, list[Span]]) -> Span:
    keeps_end = span.start_ns < _EARLIEST_NS
    kept_ns = span.end_ns if keeps_end else span.start_ns
    start_ns = end_ns = kept_ns
    seen = {span.span_id}
    pending = list(children[span.span_id])
    while pending:
        child = pending.pop()
        if child.span_id in seen:
            continue
        seen.add(child.span_id)
        if child.end_ns - child.start_ns > LONGEST_NS:  # likewise: what is inside it tells
            pending += children[child.span_id]
        elif keeps_end and kept_ns - LONGEST_NS <= child.start_ns <= child.end_ns <= kept_ns:
            start_ns = min(start_ns, child.start_ns)
        elif not keeps_end and kept_ns <= child.start_ns <= child.end_ns <= kept_ns + LONGEST_NS:
            end_ns = max(end_ns, child.end_ns)
    return replace(span, start_ns=start_ns, end_ns=end_ns)
