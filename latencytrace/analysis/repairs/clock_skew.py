"""Brings the clocks of several hosts together, by what each span must contain."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from latencytrace.model import Repair, RepairKind, Span, SpanKind

_Clock = tuple[str, str]
_MESSAGES = frozenset({SpanKind.PRODUCER, SpanKind.CONSUMER})


_USUALLY_OFF_NS = 5_000_000  # clocks that NTP keeps
_NEVER_NS = 1 << 70  # a bound that no time reaches


class _Window(NamedTuple):
    """By how much one clock may be moved against another, so that a span lies where it must."""

    low_ns: int
    high_ns: int


_Windows = Mapping[_Clock, Mapping[_Clock, Sequence[_Window]]]  # of the first against the second


def aligned(
    spans: Mapping[str, Span], cut: Collection[str]
) -> tuple[dict[str, Span], list[Repair]]:
    """Move the spans of each clock by one length, so that children lie within their parents.

    Every pair of parent and child on two clocks says by how much one clock may be off:
    the child's whole time lies within its parent's. A child that lasts longer than its
    parent, or that a message started, says only that it began no earlier. A clock is
    moved by what the most pairs allow; not at all where that is among it, else by the
    middle of what they allow, as if both ways through the network took equally long, and
    at most some ms more than twice as far as it must: a server may end a moment after its
    caller on one clock as well, and its caller's long wait before it stays where it was.

    Spans of one host share a clock, where the host is known; else those of one instance
    of a service. Clocks are moved outward from that of the request's root.

    Args:
        spans: By span id.
        cut: Spans that must not keep their parent: it would close a cycle.

    Returns:
        The same spans; one repair for each that came from a moved clock to another.

    Source: after Jaeger's clock skew adjuster, which looks at one pair at a time.
    """
    if len({(span.host, span.service, span.instance) for span in spans.values()}) <= 1:
        return dict(spans), []
    crossings = [
        (spans[span.parent_id], span)
        for span in spans.values()
        if span.parent_id is not None
        and span.parent_id in spans
        and span.span_id not in cut
        and span.clock != spans[span.parent_id].clock
    ]
    if not crossings:
        return dict(spans), []
    shifts = _after_1970(_shifts(spans.values(), crossings), spans.values())
    repairs = [
        Repair(
            kind=RepairKind.CLOCK_SKEW,
            span_id=child.span_id,
            detail=f"the clock of {child.service} is {_off(shifts, parent, child)} that of "
            f"{parent.service}; its spans are moved by {shifts[child.clock]} ns",
        )
        for parent, child in crossings
        if shifts[parent.clock] != shifts[child.clock]
    ]
    return {id_: _moved(span, shifts[span.clock]) for id_, span in spans.items()}, repairs


def _after_1970(shifts: Mapping[_Clock, int], spans: Iterable[Span]) -> dict[_Clock, int]:
    """The same shifts, all later by one length where a span would begin before the epoch."""
    early_ns = min(0, *(span.start_ns + shifts[span.clock] for span in spans))
    return {clock: shift_ns - early_ns for clock, shift_ns in shifts.items()}


def _off(shifts: Mapping[_Clock, int], parent: Span, child: Span) -> str:
    ahead_ns = shifts[parent.clock] - shifts[child.clock]
    return f"{abs(ahead_ns)} ns {'ahead of' if ahead_ns > 0 else 'behind'}"


def _moved(span: Span, shift_ns: int) -> Span:
    if not shift_ns:
        return span
    return replace(
        span,
        start_ns=span.start_ns + shift_ns,
        end_ns=span.end_ns + shift_ns,
        events=tuple(replace(event, time_ns=event.time_ns + shift_ns) for event in span.events),
    )


def _shifts(spans: Iterable[Span], crossings: Iterable[tuple[Span, Span]]) -> dict[_Clock, int]:
    """By how much each clock is moved, in ns."""
    windows = _windows(crossings)
    shifts: dict[_Clock, int] = {}
    for first in _outermost(spans):
        if first in shifts:
            continue
        shifts[first] = 0
        known = deque([first])
        while known:
            near = windows.get(known.popleft(), {})
            unknown = [(-len(near[clock]), clock) for clock in near if clock not in shifts]
            for _, clock in sorted(unknown):  # those with the most pairs first
                shifts[clock] = _shift(
                    _Window(low_ns + shifts[other], high_ns + shifts[other])
                    for other, pairs in windows[clock].items()
                    if other in shifts
                    for low_ns, high_ns in pairs
                )
                known.append(clock)
    return shifts


def _windows(crossings: Iterable[tuple[Span, Span]]) -> _Windows:
    windows: dict[_Clock, dict[_Clock, list[_Window]]] = defaultdict(lambda: defaultdict(list))
    for parent, child in crossings:
        low_ns, high_ns = parent.start_ns - child.start_ns, parent.end_ns - child.end_ns
        if low_ns > high_ns or parent.kind in _MESSAGES or child.kind in _MESSAGES:
            high_ns = _NEVER_NS
        caller, called = parent.clock, child.clock
        windows[called][caller].append(_Window(low_ns, high_ns))
        windows[caller][called].append(_Window(-high_ns, -low_ns))
    return windows


def _outermost(spans: Iterable[Span]) -> Iterator[_Clock]:
    """Clocks of roots first; where none has arrived, the earliest span stands for it."""
    heads: dict[_Clock, tuple[bool, int, str]] = {}
    for span in spans:
        rank = (span.parent_id is not None, span.start_ns, span.span_id)
        clock = span.clock
        heads[clock] = min(heads.get(clock, rank), rank)
    yield from sorted(heads, key=lambda clock: heads[clock])


def _shift(windows: Iterable[_Window]) -> int:
    """Return what the most windows allow: nothing, else the middle of it, if that is not far."""
    regions = _allowed_by_most(windows)
    if any(low_ns <= 0 <= high_ns for low_ns, high_ns in regions):
        return 0
    low_ns, high_ns = min(regions, key=lambda region: max(region.low_ns, -region.high_ns))
    if high_ns - low_ns >= _NEVER_NS // 2:  # open to one side
        return low_ns if low_ns > 0 else high_ns
    middle_ns = (low_ns + high_ns) // 2
    if low_ns > 0:
        return min(middle_ns, 2 * low_ns + _USUALLY_OFF_NS)
    return max(middle_ns, 2 * high_ns - _USUALLY_OFF_NS)


def _allowed_by_most(windows: Iterable[_Window]) -> list[_Window]:
    edges = sorted(
        edge for low_ns, high_ns in windows for edge in ((low_ns, False), (high_ns, True))
    )
    most = running = 0
    regions: list[_Window] = []
    for (at_ns, closes), (next_ns, _) in pairwise(edges):
        running += -1 if closes else 1
        if running > most:
            most = running
            regions = []
        if running == most and not closes:
            regions.append(_Window(at_ns, next_ns))
    return regions
