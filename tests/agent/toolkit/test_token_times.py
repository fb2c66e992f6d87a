"""The tokens of a stream: bounded, exact in count, sum and the longest gaps."""

import random
import statistics
from collections import Counter
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.agent.toolkit.token_times import HELD, TokenRecorder
from latencytrace.model.packed import (
    LONGEST_TOLD,
    MAX_GAPS,
    TokenTimes,
    bucket_of,
    middle_of,
    unpack_token_times,
)

START_NS = 1_000
FIRST_NS = 1_500

few_lengths = st.lists(st.integers(0, 10**10), max_size=MAX_GAPS)
# Few distinct lengths, so that many gaps are as long as each other.
many_lengths = st.lists(st.integers(0, 40), min_size=MAX_GAPS, max_size=3 * MAX_GAPS)


def recorded(lengths_ns: list[int]) -> TokenTimes | None:
    recorder = TokenRecorder()
    for at_ns in accumulate(lengths_ns, initial=FIRST_NS):
        recorder.note(at_ns)
    packed = recorder.packed(START_NS)
    return unpack_token_times(packed, START_NS) if packed else None


def alone(times: TokenTimes) -> list[int]:
    pairs = zip(times.lengths_ns, times.together, strict=True)
    return [length_ns for length_ns, together in pairs if not together]


def long_stream(tokens: int) -> list[int]:
    generator = random.Random(7)
    return [round(generator.lognormvariate(16.8, 0.5)) for _ in range(tokens)]


@given(few_lengths.filter(bool))
def test_of_a_short_stream_every_gap_is_told(lengths_ns: list[int]) -> None:
    times = recorded(lengths_ns)

    assert times == TokenTimes(
        first_ns=FIRST_NS,
        lengths_ns=tuple(lengths_ns),
        together=(0,) * len(lengths_ns),
        buckets={},
    )


@given(many_lengths.filter(lambda lengths: len(lengths) > MAX_GAPS))
def test_of_a_long_stream_the_longest_gaps_are_told(lengths_ns: list[int]) -> None:
    times = recorded(lengths_ns)

    assert times is not None
    assert Counter(alone(times)) >= Counter(sorted(lengths_ns)[-LONGEST_TOLD:])
    assert len(times.lengths_ns) <= 2 * LONGEST_TOLD + 1


@given(many_lengths)
def test_count_and_sum_are_exact(lengths_ns: list[int]) -> None:
    times = recorded(lengths_ns)

    assert times is not None
    assert sum(times.lengths_ns) == sum(lengths_ns)
    assert len(alone(times)) + sum(times.buckets.values()) == len(lengths_ns)


def test_however_long_the_stream_its_times_are_few() -> None:
    lengths_ns = long_stream(3 * HELD + 5)
    recorder = TokenRecorder()
    for at_ns in accumulate(lengths_ns, initial=FIRST_NS):
        recorder.note(at_ns)

    assert len(recorder.times) <= HELD
    assert len(recorder.packed(START_NS)) < 2_500


def test_a_stream_of_many_folds_keeps_its_longest_gaps_where_they_were() -> None:
    lengths_ns = long_stream(3 * HELD + 5)
    lengths_ns[17] = 10**9

    times = recorded(lengths_ns)

    assert times is not None
    assert Counter(alone(times)) >= Counter(sorted(lengths_ns)[-LONGEST_TOLD:])
    assert sum(times.lengths_ns) == sum(lengths_ns)
    assert sum(times.lengths_ns[: times.lengths_ns.index(10**9)]) == sum(lengths_ns[:17])


@pytest.mark.parametrize("tokens", [200, 1_000, 3 * HELD])
def test_the_buckets_hold_the_other_gaps_as_they_are_distributed(tokens: int) -> None:
    lengths_ns = long_stream(tokens)

    times = recorded(lengths_ns)

    assert times is not None
    told = Counter(alone(times))
    for bucket, count in times.buckets.items():
        told[middle_of(bucket)] += count
    assert statistics.median(told.elements()) == pytest.approx(
        statistics.median(lengths_ns), rel=0.05
    )


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200).map(sorted), st.integers(1, 5000))
def test_gaps_of_one_bucket_are_counted_as_each_by_itself(in_order: list[int], gaps: int) -> None:
    recorder = TokenRecorder()
    recorder._count(in_order, gaps)

    expected: Counter[int] = Counter()
    points = min(48, gaps)
    for point in range(points):
        here = in_order[(2 * point + 1) * len(in_order) // (2 * points)]
        expected[bucket_of(here)] += gaps * (point + 1) // points - gaps * point // points
    assert recorder._buckets == expected


@pytest.mark.parametrize("tokens", [[], [0]], ids=["none", "one"])
def test_without_two_tokens_there_is_nothing_between_them(tokens: list[int]) -> None:
    recorder = TokenRecorder()
    for at_ns in tokens:
        recorder.note(at_ns)

    assert recorder.packed(START_NS) == ""
    assert recorder.first_ns == (0 if tokens else None)
