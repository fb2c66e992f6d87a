"""Keeps one of the spans that share an id: senders retry, and some reuse ids."""

from collections.abc import Iterable

from latencytrace.model import Repair, RepairKind, Span


def without_duplicates(spans: Iterable[Span]) -> tuple[dict[str, Span], list[Repair]]:
    """One span for each span id, the same whatever the order of arrival.

    Returns:
        The spans by id, in the order of ids: of differing copies the one that lasts longest,
        as a store tells them. Only differing copies are a repair; a span sent twice is none.
    """
    kept: dict[str, Span] = {}
    repairs: dict[str, Repair] = {}
    for span in spans:
        other = kept.setdefault(span.span_id, span)
        if other is span or other == span:
            continue
        kept[span.span_id] = max(other, span, key=_rank)
        repairs[span.span_id] = Repair(
            kind=RepairKind.DUPLICATE,
            span_id=span.span_id,
            detail="spans of different content share this id; the longest is kept",
        )
    return dict(sorted(kept.items())), [repairs[span_id] for span_id in sorted(repairs)]


def _rank(span: Span) -> tuple[int, int, str, str]:
    return (span.end_ns - span.start_ns, -span.start_ns, span.name, repr(span))
