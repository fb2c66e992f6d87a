"""Reads the intervals packed on spans, and leaves out what cannot be read."""

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
