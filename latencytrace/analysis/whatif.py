"""Requests replayed as if one of their stages were faster, and a cohort's quantiles then."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis import weighted
from latencytrace.analysis.compare.matching import matching
from latencytrace.model import Interval, Segment, Span, Stage, Trace
from latencytrace.model.cohorts.request_columns import STAGES, Durations, RequestColumns

# One request replayed with a stage made faster: how long it would have taken.
#
# Spans are replayed where they are kept. A child starts as long after the last sibling that had
# ended before it as it did; a span ends as long after its last child as it did; only the time
# that is the stage's own shrinks. So a sibling that runs beside the stage takes over where it
# becomes the longer one, and a stage off the critical path gives nothing:
#
#     search   ████████████████          ->  ██████
#     guard    ██████████                    ██████████
#     decode                   █████                   █████    6 of 21 are saved, not 10
#
# The intervals packed on a span interrupt it, and those below it in its own process: their length
# stays, while what they interrupt shrinks around them.
#
# Without spans the stage's segments of the critical path shrink and all else stays: what ran
# beside them is not known, so that is the most that can be gained.

MOST_SPANS = 2_000  # of one request: a larger one is replayed by its segments


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One stage made faster: by a share of its time, or so that a call takes no longer than."""

    stage: Stage
    faster_ratio: float = 0.0  # 0.5: half of its time is gone
    at_most_ns: int | None = None  # of each call as a whole

    @property
    def own_ratio(self) -> float:
        """The rest of the stage's own time."""
        return 1.0 if self.at_most_ns is not None else 1.0 - self.faster_ratio


class _Part(NamedTuple):
    """A child of a span, or an interval packed on it, relative to the span's start."""

    start_ns: float
    end_ns: float
    length_ns: float  # as it is replayed


def replayed_spans(trace: Trace, change: Change) -> float:
    """How long a request would have taken, by its spans; its duration where nothing changes."""
    lengths: dict[str, float] = {}
    order = _parents_first(trace)
    intervals = _interruptions(trace, order)
    for span in reversed(order):
        parts = _parts(trace, span, lengths, intervals[span.span_id], change)
        lengths[span.span_id] = _replayed(span, trace.stages[span.span_id], parts, change)
    return lengths[trace.root.span_id]


def replayed_segments(segments: Iterable[Segment], change: Change) -> float:
    """How long a request would at least have taken, by the segments of its critical path."""
    other_ns, by_call = 0, dict[str, int]()
    for segment in segments:
        length_ns = segment.end_ns - segment.start_ns
        if segment.stage is change.stage:
            by_call[segment.span_id] = by_call.get(segment.span_id, 0) + length_ns
        else:
            other_ns += length_ns
    return other_ns + sum(_shortened(length_ns, change) for length_ns in by_call.values())


def _shortened(length_ns: float, change: Change) -> float:
    """The length of a call that is the stage's alone."""
    if change.at_most_ns is not None:
        return min(length_ns, change.at_most_ns)
    return length_ns * change.own_ratio


def _parents_first(trace: Trace) -> list[Span]:
    found, left = [], [trace.root]
    while left:
        span = left.pop()
        found.append(span)
        left += trace.children.get(span.span_id, ())
    return found


def _interruptions(trace: Trace, parents_first: Iterable[Span]) -> dict[str, list[Interval]]:
    """The intervals that interrupt each span itself, its ancestors' among them."""
    found: dict[str, list[Interval]] = {}
    for span in parents_first:
        own = [*found.get(span.span_id, ()), *trace.intervals.get(span.span_id, ())]
        left = own
        for child in _awaited(trace, span) if own else ():
            if child.clock == span.clock:
                within = (_cut(one, child.start_ns, child.end_ns) for one in own)
                found[child.span_id] = [one for one in within if one is not None]
                left = [piece for one in left for piece in _outside(one, child)]
        found[span.span_id] = left
    return found


def _outside(interval: Interval, span: Span) -> Iterable[Interval]:
    """The parts of an interval before a span and after it."""
    parts = (
        _cut(interval, interval.start_ns, span.start_ns),
        _cut(interval, span.end_ns, interval.end_ns),
    )
    return (part for part in parts if part is not None)


def _cut(interval: Interval, start_ns: int, end_ns: int) -> Interval | None:
    """The part of an interval between two times; None: there is none."""
    start_ns, end_ns = max(start_ns, interval.start_ns), min(end_ns, interval.end_ns)
    if start_ns >= end_ns:
        return None
    return Interval(stage=interval.stage, start_ns=start_ns, end_ns=end_ns)


def _awaited(trace: Trace, span: Span) -> Iterable[Span]:
    """The children that a span waited for."""
    children = trace.children.get(span.span_id, ())
    return (child for child in children if not trace.outlives(child, span))


def _replayed(span: Span, stage: Stage, parts: Iterable[_Part], change: Change) -> float:
    """The length of a span, of which all parts are replayed."""
    length_ns = span.end_ns - span.start_ns
    is_of_stage = stage is change.stage
    if is_of_stage and change.at_most_ns is not None:
        return min(length_ns, change.at_most_ns)
    left_ratio = change.own_ratio if is_of_stage else 1.0
    running: list[tuple[float, float, float]] = []  # ends, new ends and starts: a heap
    ended_ns, ready_ns = 0.0, 0.0  # the last end so far, as it was and as it is now
    for part in sorted(parts):
        while running and running[0][0] <= part.start_ns:
            end_ns, new_end_ns, _ = heappop(running)
            ended_ns, ready_ns = end_ns, max(ready_ns, new_end_ns)
        beside_ns = min((start_ns for *_, start_ns in running), default=part.start_ns)
        alone_ns = max(beside_ns - ended_ns, 0.0)
        gap_ns = part.start_ns - ended_ns
        begin_ns = ready_ns + alone_ns * left_ratio + (gap_ns - alone_ns)
        heappush(running, (part.end_ns, begin_ns + part.length_ns, part.start_ns))
    for end_ns, new_end_ns, _ in running:
        ended_ns, ready_ns = max(ended_ns, end_ns), max(ready_ns, new_end_ns)
    return ready_ns + (length_ns - ended_ns) * left_ratio


def _parts(
    trace: Trace,
    span: Span,
    lengths: dict[str, float],
    intervals: Iterable[Interval],
    change: Change,
) -> Iterable[_Part]:
    """The children that a span waited for, and the intervals that interrupt it."""
    origin_ns = span.start_ns
    for child in _awaited(trace, span):
        start_ns, end_ns = child.start_ns - origin_ns, child.end_ns - origin_ns
        yield _Part(start_ns, end_ns, lengths[child.span_id])
    for interval in intervals:
        start_ns, end_ns = interval.start_ns - origin_ns, interval.end_ns - origin_ns
        length_ns: float = end_ns - start_ns
        if interval.stage is change.stage:
            length_ns = _shortened(length_ns, change)
        yield _Part(start_ns, end_ns, length_ns)


Floats = NDArray[np.float64]

LEVELS: Final = (0.5, 0.95, 0.99)
TESTED: Final = (0.5, 0.95)  # of the back-test: the halves have too few beyond the others
LEAST_TESTED: Final = 100  # requests of each half


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One request of a sample: how long it took, and would have taken."""

    duration_ns: int
    replayed_ns: float
    weight: float  # how many requests of the cohort it stands for


def forecast(durations: Durations, sample: Sequence[Replayed]) -> list[float]:
    """The quantiles at `LEVELS` as they would be.

    What the sample loses of its own quantile is taken off the cohort's: that so few are
    replayed makes both of the sample's wrong alike.

    Args:
        durations: Durations of the whole cohort.
        sample: Forecast durations (n,), n > 0.
    """
    weight = np.array([one.weight for one in sample])
    now = np.array([one.duration_ns for one in sample], np.float64)
    then = np.array([one.replayed_ns for one in sample])
    exact = quantiles(durations)
    return [
        float(whole * _quantile(then, weight, level) / max(_quantile(now, weight, level), 1.0))
        for whole, level in zip(exact, LEVELS, strict=True)
    ]


def quantiles(durations: Durations) -> list[float]:
    return weighted.quantiles(durations.ns, LEVELS, durations.weight).tolist()  # type: ignore[no-any-return] # of numbers


def back_test(columns: RequestColumns, stage: Stage, gained_ratio: float) -> float | None:
    """How far a forecast of this kind is from what really happened, as a ratio.

    The stage was fast in some requests and slow in others. Of those in which it was slow we
    forecast what they would have taken had it been as fast as in the others, each at its own
    rank, and hold that against what the others took, at equal tokens, concurrency, routes and
    models.

    Args:
        stage: The stage that becomes faster.
        gained_ratio: How much of the stage's lost time a request gains, as replays found.

    Returns:
        The largest difference at `TESTED`; None: too few requests have the stage, or it took
        the same time in all.
    """
    stage_ns = columns.stages_ns[:, STAGES.index(stage)]
    having = np.flatnonzero(stage_ns > 0)
    if len(having) < 2 * LEAST_TESTED:
        return None
    middle = weighted.quantiles(stage_ns[having], 0.5, weighted.of(having, columns.weight))
    halves = having[stage_ns[having] <= middle], having[stage_ns[having] > middle]
    fast, slow = (columns.taken(half) for half in halves)
    sizes = [weighted.effective(len(half), half.weight) for half in (fast, slow)]
    if min(sizes) < LEAST_TESTED:
        return None
    found = matching(fast, slow)
    if found.unmatched is not None:
        return None
    fast_ns, slow_ns = stage_ns[halves[0]], stage_ns[halves[1]]
    would_be_ns = _at_own_rank(slow_ns, found.b, fast_ns, found.a)
    forecast_ns = slow.duration_ns - gained_ratio * (slow_ns - would_be_ns)
    errors = []
    for level in TESTED:
        truth = _quantile(fast.duration_ns.astype(np.float64), found.a, level)
        errors.append(abs(_quantile(forecast_ns, found.b, level) - truth) / max(truth, 1.0))
    return max(errors)


def _at_own_rank(
    values: NDArray[np.int64], weight: Floats, others: NDArray[np.int64], other_weight: Floats
) -> Floats:
    """For each value, that of the others which has the same rank among them."""
    order = np.argsort(values, kind="stable")
    until = np.cumsum(weight[order])
    ranks = np.empty(len(values))
    ranks[order] = (until - weight[order] / 2) / until[-1]
    return _quantile_function(others.astype(np.float64), other_weight, ranks)


def _quantile(values: Floats, weight: Floats, level: float) -> float:
    return float(_quantile_function(values, weight, np.array([level]))[0])


def _quantile_function(values: Floats, weight: Floats, levels: Floats) -> Floats:
    order = np.argsort(values, kind="stable")
    order = order[weight[order] > 0]
    until = np.cumsum(weight[order])
    return np.asarray(np.interp(levels, (until - weight[order] / 2) / until[-1], values[order]))
