"""A request's spans as a well-formed tree."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from latencytrace.model.packed import Interval
from latencytrace.model.span import Span
from latencytrace.model.stage import Stage


class RepairKind(StrEnum):
    """Faults of a trace before it was mended."""

    DUPLICATE = "duplicate"  # the same span id came twice with different content
    ORPHAN = "orphan"  # its parent never arrived; hung where it most plausibly ran
    ROOTLESS = "rootless"  # the request that it was a part of never arrived; one of its own
    CYCLE = "cycle"  # it was its own ancestor; the loop was cut
    CLOCK_SKEW = "clock_skew"  # its host's clock was off; all spans of that clock were moved
    NEGATIVE = "negative"  # it ended before it started: a clock was set back
    IMPLAUSIBLE = "implausible"  # it lasted too long, or its start or end was never set
    CLIPPED = "clipped"  # it stuck out of its parent
    INTERVALS = "intervals"  # its packed intervals could not be read
    TIMES = "times"  # times that its engine reported could not be


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A change that made a malformed trace well-formed."""

    kind: RepairKind
    span_id: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One request's spans: a tree in which every child lies within its parent.

    A request is a root span, or a server span with a parent of another
    service; a trace through three services holds three of these.
    """

    root: Span
    outermost: bool  # False: a request inside another one of the same trace
    spans: Mapping[str, Span]  # by span id, the root among them; repaired
    unclipped: Mapping[str, Span]  # the same, where they stick out of their parents
    children: Mapping[str, tuple[Span, ...]]  # by parent's span id; absent: none
    stages: Mapping[str, Stage]  # by span id; framework spans are UNATTRIBUTED
    intervals: Mapping[str, tuple[Interval, ...]]  # by span id, within their span
    repairs: tuple[Repair, ...] = ()
    is_timed: bool = True  # False: when it was, or how long it took, is unknown
    retried: Mapping[str, str] = field(default_factory=dict)  # failed attempts: the next one
    # When the messages that spans waited for were sent: no more known of a tree once built.
    queued: Mapping[str, int] = field(default_factory=dict, compare=False)
    # Spans of messages whose sender did not wait: requests of their own. Likewise.
    unawaited: frozenset[str] = field(default=frozenset(), compare=False)

    def outlives(self, child: Span, parent: Span) -> bool:
        """Return whether a child went on when its parent had ended, by the clock that both tell.

        Nothing can have waited for it there. Across clocks nothing is said: what sticks
        out may be a clock that is off.
        """
        if child.end_ns < parent.end_ns:
            return False  # nothing was clipped
        child, parent = self.unclipped[child.span_id], self.unclipped[parent.span_id]
        return child.end_ns > parent.end_ns and child.clock == parent.clock


def parents_first(spans: Mapping[str, Span]) -> dict[str, Span]:
    """The same spans, each parent before its children.

    Args:
        spans: By span id, without cycles, the parent of each among them.
    """
    children = defaultdict(list)
    for span in spans.values():
        children[span.parent_id].append(span)
    ordered: dict[str, Span] = {}
    pending = children[None]
    while pending:
        span = pending.pop()
        ordered[span.span_id] = span
        pending.extend(children.get(span.span_id, ()))
    return ordered
