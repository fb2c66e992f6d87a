"""Gives spans another time whose start or end was never set."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from latencytrace.model import Repair, RepairKind, Request, Span
from latencytrace.model.texts.escaped import named
from latencytrace.model.texts.units import duration

WEEK_NS: Final = 7 * 86_400 * 10**9
DATED_NS: Final = 946_684_800 * 10**9  # the year 2000: a time before it was never set
UNTIMED: Final = frozenset({RepairKind.IMPLAUSIBLE, RepairKind.NEGATIVE})
_LATEST_NS = (1 << 63) - 1
_MOST_BETWEEN: Final = 32  # absurd spans, one below the other, between a span and those that tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Plausible:
    """The times that are believed."""

    longest_ns: int = WEEK_NS  # of a span; what lasts longer was not timed
    earliest_ns: int = 0  # of a request's start
    latest_ns: int = _LATEST_NS  # of its end

    def has(self, span: Span) -> bool:
        """Return whether a request may have been then."""
        return self.earliest_ns <= span.start_ns and span.end_ns <= self.latest_ns


PLAUSIBLE: Final = Plausible()


def as_believed(request: Request) -> Plausible:
    """The times that were believed when a request was attributed, as far as its tree shows them.

    Whatever was mended is at most as long as the request now.
    """
    was_mended = any(one.kind in UNTIMED for one in request.repairs)
    return Plausible(longest_ns=request.duration_ns if was_mended else _LATEST_NS)


def without_implausible(
    spans: dict[str, Span], longest_ns: int = WEEK_NS
) -> tuple[dict[str, Span], list[Repair]]:
    """The same spans; one whose times cannot be lasts as far as its children.

    It lasts too long, has no start or end, or ends before it starts: a clock was set back
    meanwhile. It keeps the end that can be, its start if both can; where only its other end has
    children near, that. Without children it is empty there.
    """
    are_dated = any(span.end_ns >= DATED_NS for span in spans.values())
    absurd = [
        span
        for span in spans.values()
        if not 0 <= span.end_ns - span.start_ns <= longest_ns
        or (are_dated and min(span.start_ns, span.end_ns) < DATED_NS)
    ]
    if not absurd:
        return spans, []
    children: dict[str | None, list[Span]] = defaultdict(list)
    for span in spans.values():
        children[span.parent_id].append(span)
    are_absurd = {span.span_id for span in absurd}
    mended = dict(spans)
    repairs = []
    for span in absurd:
        kind = _kind(span)
        inside = [
            one
            for one in _timed_inside(span, children, are_absurd)
            if kind is RepairKind.IMPLAUSIBLE or one.clock == span.clock
        ]
        found = _as_children(span, inside, longest_ns) or _empty(span, spans)
        mended[span.span_id] = found
        repairs.append(
            Repair(
                kind=kind,
                span_id=span.span_id,
                detail=(
                    f"{named(span.name)} {_said(span)}, which cannot be; "
                    f"it lasts {duration(found.end_ns - found.start_ns)} now"
                ),
            )
        )
    return mended, repairs


def out_of_time(root: Span, plausible: Plausible) -> Repair | None:
    """Say that a request cannot have been when it says; None: it can."""
    if plausible.has(root):
        return None
    at_ns = root.start_ns if root.start_ns < plausible.earliest_ns else root.end_ns
    at = datetime.fromtimestamp(min(at_ns, _LATEST_NS) // 10**9, UTC)
    return Repair(
        kind=RepairKind.IMPLAUSIBLE,
        span_id=root.span_id,
        detail=f"{named(root.name)} was in {at:%Y-%m}, which cannot be",
    )


def _kind(span: Span) -> RepairKind:
    was_set_back = len(_dated_ends(span)) != 1 and span.end_ns < span.start_ns
    return RepairKind.NEGATIVE if was_set_back else RepairKind.IMPLAUSIBLE


def _said(span: Span) -> str:
    if _kind(span) is RepairKind.NEGATIVE:
        return f"ended {duration(span.start_ns - span.end_ns)} before it started"
    if span.end_ns < DATED_NS:
        return "has no end" if span.start_ns >= DATED_NS else "has neither a start nor an end"
    return f"lasted {duration(span.end_ns - span.start_ns)}"


def _timed_inside(
    span: Span, children: Mapping[str | None, Sequence[Span]], absurd: set[str]
) -> Iterator[Span]:
    """The spans below one whose times tell; of an absurd child, those below it."""
    seen, above = {span.span_id}, [span]
    for _ in range(_MOST_BETWEEN):
        if not above:
            return
        below = [
            child
            for one in above
            for child in children.get(one.span_id, ())
            if child.span_id not in seen
        ]
        seen.update(child.span_id for child in below)
        above = [child for child in below if child.span_id in absurd]
        for child in below:
            if child.span_id not in absurd and child.start_ns <= child.end_ns:
                yield child


def _as_children(span: Span, inside: Sequence[Span], longest_ns: int) -> Span | None:
    ends = _dated_ends(span)
    for kept_ns in ends:
        is_start = kept_ns == span.start_ns
        first_ns = kept_ns if is_start else kept_ns - longest_ns
        near = [
            one
            for one in inside
            if first_ns <= one.start_ns and one.end_ns <= first_ns + longest_ns
        ]
        if near and is_start:
            return replace(span, end_ns=max(one.end_ns for one in near))
        if near:
            return replace(span, start_ns=min(one.start_ns for one in near))
    if not ends and inside:
        start_ns = min(one.start_ns for one in inside)
        end_ns = max(one.end_ns for one in inside)
        if end_ns - start_ns <= longest_ns:
            return replace(span, start_ns=start_ns, end_ns=end_ns)
    return None


def _empty(span: Span, spans: Mapping[str, Span]) -> Span:
    """The span without a length, where it can have been."""
    above = spans.get(span.parent_id or "")
    ends = _dated_ends(span) or ([] if above is None else _dated_ends(above))
    kept_ns = ends[0] if ends else span.start_ns
    return replace(span, start_ns=kept_ns, end_ns=kept_ns)


def _dated_ends(span: Span) -> list[int]:
    return [at_ns for at_ns in (span.start_ns, span.end_ns) if at_ns >= DATED_NS]
