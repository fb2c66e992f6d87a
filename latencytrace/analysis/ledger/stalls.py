"""Gaps between tokens that a reader notices, and what each was spent on."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from latencytrace.analysis.tokens.gaps import inter_token
from latencytrace.model import Segment, Stage, Trace
from latencytrace.model.packed import TokenTimes

MEDIANS = 5  # batches grow and shrink, which makes gaps two or three times as long
NOTICED_NS = 50_000_000  # shorter than a reader's eye rests on a word
PREEMPTION = "preemption"
UNKNOWN = "unknown"
_ORDINARY = frozenset({Stage.DECODE, Stage.UNATTRIBUTED, Stage.OTHER})
_PREEMPTED = "preempt"  # in the name of an engine's event


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A gap between two tokens that is too long."""

    start_ns: int  # when the token before it came, from the request's start
    duration_ns: int
    label: str  # a stage, `preemption` or `unknown`


def stalls(
    trace: Trace, segments: Sequence[Segment], streams: Iterable[TokenTimes]
) -> tuple[Stall, ...]:
    """The gaps longer than five medians and 50 ms.

    Args:
        segments: Critical path of the request.

    Returns:
        In order of time. The label is `preemption` where an engine's event says so, else
        the stage, other than decoding, that the critical path spent the most of the gap in,
        if that is at least half of what the gap exceeds the median by; else `unknown`.
    """
    streams = tuple(streams)
    usual = inter_token(streams)
    if usual is None:
        return ()
    bound_ns = max(MEDIANS * usual.p50_ns, NOTICED_NS)
    found = []
    for start_ns, length_ns in _alone(streams):
        if length_ns > bound_ns:
            from_start_ns = start_ns - trace.root.start_ns
            label = (
                PREEMPTION
                if _preempted(trace, start_ns, start_ns + length_ns)
                else _stage(segments, from_start_ns, length_ns, length_ns - usual.p50_ns)
            )
            found.append(Stall(start_ns=from_start_ns, duration_ns=length_ns, label=label))
    return tuple(sorted(found, key=lambda stall: (stall.start_ns, stall.duration_ns)))


def _alone(streams: Iterable[TokenTimes]) -> Iterator[tuple[int, int]]:
    """Start and length of each gap reported by itself, which the longest are."""
    for times in streams:
        at_ns = times.first_ns
        for length_ns, together in zip(times.lengths_ns, times.together, strict=True):
            if not together:
                yield at_ns, length_ns
            at_ns += length_ns


def _preempted(trace: Trace, start_ns: int, end_ns: int) -> bool:
    return any(
        start_ns <= event.time_ns < end_ns and _PREEMPTED in event.name.lower()
        for span in trace.unclipped.values()
        for event in span.events
    )


def _stage(segments: Sequence[Segment], start_ns: int, length_ns: int, excess_ns: int) -> str:
    spent = Counter[Stage]()
    for segment in segments:
        within_ns = min(segment.end_ns, start_ns + length_ns) - max(segment.start_ns, start_ns)
        if within_ns > 0 and segment.stage not in _ORDINARY:
            spent[segment.stage] += within_ns
    stage, most_ns = max(
        spent.items(), key=lambda item: (item[1], item[0]), default=(Stage.UNATTRIBUTED, 0)
    )
    return stage.value if most_ns > 0 and 2 * most_ns >= excess_ns else UNKNOWN
