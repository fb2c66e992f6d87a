"""Clips spans to their parents: async work outlives them, and clocks differ."""

from dataclasses import replace

from latencytrace.model import Repair, RepairKind, Span

_Extent = tuple[int, int]  # start and end in ns


def clipped(span: Span, parent: Span) -> tuple[Span, Repair | None]:
    """A span cut off where it sticks out of its parent; one wholly outside becomes empty."""
    if parent.start_ns <= span.start_ns <= span.end_ns <= parent.end_ns:
        return span, None
    start_ns = min(max(span.start_ns, parent.start_ns), parent.end_ns)
    end_ns = min(max(span.end_ns, parent.start_ns), parent.end_ns)
    repair = clipping(
        span.span_id,
        (span.name, parent.name),
        (span.start_ns, span.end_ns),
        (parent.start_ns, parent.end_ns),
    )
    return replace(span, start_ns=start_ns, end_ns=end_ns), repair


def ran_afterwards(span: Span, parent: Span) -> bool:
    """Tell whether a span began when its parent had ended, as a background task does.

    Told by one clock, that of a process which says which it is, nothing of it wants mending.
    """
    is_same = (span.service, span.instance) == (parent.service, parent.instance)
    return is_same and bool(span.instance) and span.start_ns >= parent.end_ns


def clipping(span_id: str, names: tuple[str, str], sent: _Extent, parent: _Extent) -> Repair:
    """The repair of a span that sticks out of its parent.

    Args:
        sent: From when to when it ran.
        parent: From when to when its parent did.
    """
    (start_ns, end_ns), (first_ns, last_ns) = sent, parent
    if end_ns <= first_ns:
        where = f"wholly before, by {first_ns - end_ns} ns"
    elif start_ns >= last_ns:
        where = f"wholly after, by {start_ns - last_ns} ns"
    else:
        before_ns, after_ns = max(first_ns - start_ns, 0), max(end_ns - last_ns, 0)
        where = f"by {before_ns} ns before it, {after_ns} ns after it"
    return Repair(
        kind=RepairKind.CLIPPED,
        span_id=span_id,
        detail=f"{names[0]} stuck out of {names[1]}: {where}",
    )


def without_negative(spans: dict[str, Span]) -> tuple[dict[str, Span], list[Repair]]:
    """The same spans, those that ended before they started now empty at their start."""
    repairs = []
    mended = dict(spans)
    for span_id, span in spans.items():
        if span.end_ns < span.start_ns:
            mended[span_id] = replace(span, end_ns=span.start_ns)
            by_ns = span.start_ns - span.end_ns
            repairs.append(
                Repair(
                    kind=RepairKind.NEGATIVE,
                    span_id=span_id,
                    detail=f"{span.name} ended {by_ns} ns before it started; it is empty now",
                )
            )
    return mended, repairs
