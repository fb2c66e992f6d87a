"""Notes when the tokens of one stream came, bounded whatever the stream's length.

Speed is the point here: `note` runs once a token in the serving thread, so the rest works on
whole lists (`tests/benchmarks/bench_stream.py` says what it costs).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain, compress, count
from operator import sub

from latencytrace.agent.compiled.core import core, quicker
from latencytrace.model.packed import (
    LONGEST_TOLD,
    MAX_GAPS,
    TokenTimes,
    bucket_of,
    least_of,
    pack_token_times,
)

HELD = 4096  # times, before they are folded into gaps
_POINTS = 48  # of lengths in order, so many stand for all
_SAMPLED = 512  # so many gaps are sampled, fewer are all looked at
_RUN = 32


class TokenRecorder:
    """The tokens of one stream, noted by one thread in order of time."""

    __slots__ = ("_buckets", "_first_ns", "_folded", "_lengths", "_together", "times")

    def __init__(self) -> None:
        self._first_ns: int | None = None
        self._folded = 0  # times that are gaps by now
        self.times: list[int] = []  # monotonic, at most `HELD`; the same list for ever
        self._lengths: list[int] = []  # what was folded so far, as in `TokenTimes`
        self._together: list[int] = []
        self._buckets: dict[int, int] = {}

    @property
    def first_ns(self) -> int | None:
        """The monotonic time of the first token; None: there was none yet."""
        if self._first_ns is None and self.times:
            return self.times[0]
        return self._first_ns

    @property
    def count(self) -> int:
        return self._folded + len(self.times)

    def note(self, at_ns: int) -> None:
        times = self.times
        times.append(at_ns)
        if len(times) >= HELD:
            self.fold()

    def packed(self, span_start_ns: int) -> str:
        """The value of `latencytrace.token_times`, empty if there is no gap.

        Args:
            span_start_ns: The monotonic start of the span that carries it.
        """
        self.fold()
        if self._first_ns is None or not self._lengths:
            return ""
        times = TokenTimes(
            first_ns=self._first_ns,
            lengths_ns=self._lengths,
            together=self._together,
            buckets=self._buckets,
        )
        return pack_token_times(times, span_start_ns)

    def fold(self) -> None:
        """Make gaps of times, and of too many gaps the longest and what lies between them."""
        self._first_ns = self.first_ns
        times = self.times[:]
        self._folded += max(len(times) - 1, 0)
        del self.times[:-1]
        lengths = list(map(sub, times[1:], times))
        if len(lengths) > MAX_GAPS:
            lengths, together = self._longest(lengths, (), times)
        else:
            together = [0] * len(lengths)
        lengths, together = self._lengths + lengths, self._together + together
        if len(lengths) > MAX_GAPS:
            passed_ns = list(accumulate(lengths, initial=0))
            lengths, together = self._longest(lengths, together, passed_ns)
        self._lengths, self._together = lengths, together

    @quicker("longest")
    def _longest(
        self, lengths: list[int], together: Sequence[int], passed_ns: Sequence[int]
    ) -> tuple[list[int], list[int]]:
        """The longest gaps by themselves, the others together.

        Args:
            together: As in `TokenTimes`; empty: each gap is reported by itself.
            passed_ns: The time before each gap and after the last, since whenever.
        """
        alone = lengths
        if together:
            alone = [-1 if n else length for length, n in zip(lengths, together, strict=True)]
        in_order = sorted(_sample(alone))
        # At least so many are as long as this, and of a sample not many more.
        long_ns = in_order[-LONGEST_TOLD]
        places = list(compress(count(), map(long_ns.__le__, alone)))
        if len(places) > LONGEST_TOLD:
            places.sort(key=alone.__getitem__, reverse=True)  # of equal ones the first comes first
            long_ns = alone[places[LONGEST_TOLD - 1]]
            places = sorted(places[:LONGEST_TOLD])
        others = len(alone) - LONGEST_TOLD - (len(together) - together.count(0))
        self._count(in_order[bisect_left(in_order, 0) : bisect_right(in_order, long_ns)], others)
        found: list[int] = []
        found_together: list[int] = []
        before = 0
        for place in places:
            if place > before:
                found += (passed_ns[place] - passed_ns[before], lengths[place])
                found_together += (_count_in(together, before, place), 0)
            else:
                found.append(lengths[place])
                found_together.append(0)
            before = place + 1
        if before < len(lengths):
            found.append(passed_ns[-1] - passed_ns[before])
            found_together.append(_count_in(together, before, len(lengths)))
        return found, found_together

    def _count(self, in_order: list[int], gaps: int) -> None:
        """Count gaps in their buckets.

        Args:
            in_order: The lengths of some of them, or of all, the shortest first.
        """
        buckets = self._buckets
        points, length = min(_POINTS, gaps), len(in_order)
        stood_for = point = 0
        while point < points:  # each stands for those around it; those of one bucket at once
            bucket = bucket_of(in_order[(2 * point + 1) * length // (2 * points)])
            longer = bisect_left(in_order, least_of(bucket + 1))
            point = min(-(-2 * points * longer // length) // 2, points)
            until = gaps * point // points
            buckets[bucket] = buckets.get(bucket, 0) + until - stood_for
            stood_for = until


if core is not None:
    core.bind_tokens(TokenRecorder)


def _count_in(together: Sequence[int], first: int, last: int) -> int:
    """Count the gaps between two places."""
    if not together:
        return last - first
    counts = together[first:last]
    return sum(counts) + counts.count(0)


def _sample(lengths: list[int]) -> list[int]:
    """All of a few; of many a quarter, in runs that no rhythm of a model can hide from."""
    if len(lengths) < _SAMPLED:
        return lengths
    return list(
        chain.from_iterable(
            lengths[start : start + _RUN] for start in range(0, len(lengths), 4 * _RUN)
        )
    )
