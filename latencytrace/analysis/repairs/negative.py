"""Empties spans that ended before they started: clocks step back."""

from dataclasses import replace

from latencytrace.model import Repair, RepairKind, Span


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
