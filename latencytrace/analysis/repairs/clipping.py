"""Clips spans to their parents: async work outlives them, and clocks differ."""

from collections.abc import Mapping
from dataclasses import replace

from latencytrace.model import (
    Interval,
    Repair,
    RepairKind,
    Span,
    pack_intervals,
    semconv,
    unpack_intervals,
)
from latencytrace.model.texts.escaped import named

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
        detail=f"{named(names[0])} stuck out of {named(names[1])}: {where}",
    )


Intervals = tuple[Interval, ...]


def read_intervals(
    spans: Mapping[str, Span],
) -> tuple[dict[str, Span], dict[str, Intervals], list[Repair]]:
    """The intervals packed on spans, by span id.

    Returns:
        The spans, without the attribute where it cannot be read; the intervals as
        sent, absolute, not clipped to their span.
    """
    readable = dict(spans)
    found: dict[str, Intervals] = {}
    repairs = []
    for span_id, span in spans.items():
        packed = span.attributes.get(semconv.INTERVALS)
        if packed is None:
            continue
        try:
            found[span_id] = unpack_intervals(str(packed), span.start_ns)
        except ValueError as error:
            readable[span_id] = carrying(span, ())
            repairs.append(Repair(kind=RepairKind.INTERVALS, span_id=span_id, detail=str(error)))
    return readable, found, repairs


def clipped_intervals(sent: Span, span: Span, intervals: Intervals) -> tuple[Span, Intervals]:
    """Return what of its intervals lies within a span that was clipped.

    Args:
        sent: The span before it was clipped.
        span: The span after clipping.
        intervals: As they were sent.

    Returns:
        The span, its attribute as if it had been sent so; and the intervals, in order.
    """
    within = sorted(
        (
            interval
            if interval.start_ns >= span.start_ns and interval.end_ns <= span.end_ns
            else Interval(
                stage=interval.stage,
                start_ns=max(interval.start_ns, span.start_ns),
                end_ns=min(interval.end_ns, span.end_ns),
            )
            for interval in intervals
            if min(interval.end_ns, span.end_ns) > max(interval.start_ns, span.start_ns)
        ),
        key=lambda interval: (interval.start_ns, interval.end_ns, interval.stage),
    )
    if span.start_ns != sent.start_ns or set(within) != set(intervals):
        span = carrying(span, tuple(within))
    return span, tuple(within)


def carrying(span: Span, intervals: Intervals) -> Span:
    """A span with these intervals packed on it, and no others."""
    attributes = dict(span.attributes)
    attributes.pop(semconv.INTERVALS, None)
    if intervals:
        attributes[semconv.INTERVALS] = pack_intervals(intervals, span.start_ns)
    return replace(span, attributes=attributes)
