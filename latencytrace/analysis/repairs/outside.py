"""Clips spans to their parents: async work outlives them, and clocks differ."""

from dataclasses import replace

from latencytrace.model import Repair, RepairKind, Span


def clipped(span: Span, parent: Span) -> tuple[Span, Repair | None]:
    """A span cut off where it sticks out of its parent; one wholly outside becomes empty."""
    start_ns = min(max(span.start_ns, parent.start_ns), parent.end_ns)
    end_ns = min(max(span.end_ns, parent.start_ns), parent.end_ns)
    if (start_ns, end_ns) == (span.start_ns, span.end_ns):
        return span, None
    before_ns, after_ns = start_ns - span.start_ns, span.end_ns - end_ns
    return replace(span, start_ns=start_ns, end_ns=end_ns), Repair(
        kind=RepairKind.CLIPPED,
        span_id=span.span_id,
        detail=f"{span.name} stuck out of {parent.name}: "
        f"{max(before_ns, 0)} ns before it, {max(after_ns, 0)} ns after it",
    )
