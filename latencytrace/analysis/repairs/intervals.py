"""Reads the intervals packed on a span, and leaves out what cannot be read."""

from latencytrace.model import Interval, Repair, RepairKind, Span, semconv, unpack_intervals


def intervals_within(span: Span, sent_start_ns: int) -> tuple[tuple[Interval, ...], Repair | None]:
    """The intervals on a span, clipped to it.

    Args:
        span: As repaired.
        sent_start_ns: Where the span started before it was clipped, for the intervals
            count from there.
    """
    packed = span.attributes.get(semconv.INTERVALS)
    if packed is None:
        return (), None
    try:
        intervals = unpack_intervals(str(packed), sent_start_ns)
    except ValueError as error:
        repair = Repair(kind=RepairKind.INTERVALS, span_id=span.span_id, detail=str(error))
        return (), repair
    within = (
        Interval(
            stage=interval.stage,
            start_ns=max(interval.start_ns, span.start_ns),
            end_ns=min(interval.end_ns, span.end_ns),
        )
        for interval in intervals
    )
    return tuple(interval for interval in within if interval.end_ns > interval.start_ns), None
