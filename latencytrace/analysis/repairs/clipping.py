"""Clips spans to their parents: async work outlives them, and clocks differ."""

from dataclasses import replace

from latencytrace.model import Repair, RepairKind, Span


def clipped(span: Span, parent: Span) -> tuple[Span, Repair | None]:
    """A span cut off where it sticks out of its parent; one wholly outside becomes empty."""
    start_ns = min(max(span.start_ns, parent.start_ns), parent.end_ns)
    end_ns = min(max(span.end_ns, parent.start_ns), parent.end_ns)
    if (start_ns, end_ns) == (span.start_ns, span.end_ns):
        return span, None
    if span.end_ns <= parent.start_ns:
        where = f"wholly before, by {parent.start_ns - span.end_ns} ns"
    elif span.start_ns >= parent.end_ns:
        where = f"wholly after, by {span.start_ns - parent.end_ns} ns"
    else:
        where = f"by {start_ns - span.start_ns} ns before it, {span.end_ns - end_ns} ns after it"
    repair = Repair(
        kind=RepairKind.CLIPPED,
        span_id=span.span_id,
        detail=f"{span.name} stuck out of {parent.name}: {where}",
    )
    return replace(span, start_ns=start_ns, end_ns=end_ns), repair
