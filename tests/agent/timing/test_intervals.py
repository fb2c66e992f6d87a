"""Work interleaved with a span: bounded, and exact in its total."""

from hypothesis import given
from hypothesis import strategies as st

from latencytrace.agent.timing.intervals import IntervalRecorder
from latencytrace.model import Interval, Stage
from latencytrace.model.interval import MAX_INTERVALS, unpack_intervals

START_NS = 1_000
STAGES = (Stage.RESPOND, Stage.DETOKENIZE, Stage.NETWORK)

# Per stage: the gap before each interval, and its length.
steps = st.lists(
    st.tuples(st.sampled_from(STAGES), st.integers(0, 10**9), st.integers(1, 10**9)), max_size=400
)


def recorded(taken: list[tuple[Stage, int, int]]) -> tuple[tuple[Interval, ...], dict[Stage, int]]:
    """What is packed, and the true total of each stage."""
    recorder = IntervalRecorder()
    now_ns = dict.fromkeys(STAGES, START_NS)
    total_ns = dict.fromkeys(STAGES, 0)
    for stage, gap_ns, length_ns in taken:
        start_ns = now_ns[stage] + gap_ns
        now_ns[stage] = start_ns + length_ns
        total_ns[stage] += length_ns
        recorder.add(stage, start_ns, now_ns[stage])
    return unpack_intervals(recorder.packed(START_NS), START_NS), total_ns


@given(steps)
def test_however_much_is_noted_it_is_bounded(taken: list[tuple[Stage, int, int]]) -> None:
    intervals, _ = recorded(taken)

    assert len(intervals) <= MAX_INTERVALS


@given(steps)
def test_merging_keeps_each_stages_time_exactly(taken: list[tuple[Stage, int, int]]) -> None:
    intervals, total_ns = recorded(taken)

    packed_ns = dict.fromkeys(STAGES, 0)
    for interval in intervals:
        packed_ns[interval.stage] += interval.end_ns - interval.start_ns
    assert packed_ns == total_ns


@given(steps)
def test_what_is_merged_stays_where_it_was(taken: list[tuple[Stage, int, int]]) -> None:
    intervals, _ = recorded(taken)

    ends_ns = {stage: [i.end_ns for i in intervals if i.stage is stage] for stage in STAGES}
    starts_ns = {stage: [i.start_ns for i in intervals if i.stage is stage] for stage in STAGES}
    for stage in STAGES:
        last_ns = START_NS + sum(gap + length for of, gap, length in taken if of is stage)
        assert all(start >= START_NS for start in starts_ns[stage])
        assert all(end <= last_ns for end in ends_ns[stage])


def test_few_intervals_are_kept_as_they_are() -> None:
    intervals, _ = recorded([(Stage.RESPOND, 5, 10), (Stage.RESPOND, 20, 30)])

    assert [(i.start_ns - START_NS, i.end_ns - START_NS) for i in intervals] == [(5, 15), (35, 65)]


def test_one_of_fifty_thousand_tokens_is_as_bounded_as_any() -> None:
    intervals, total_ns = recorded([(Stage.DETOKENIZE, 3, 2)] * 50_000)

    assert 32 <= len(intervals) <= MAX_INTERVALS
    assert sum(i.end_ns - i.start_ns for i in intervals) == total_ns[Stage.DETOKENIZE] == 100_000


def test_a_rare_stage_is_not_merged_away_by_a_frequent_one() -> None:
    taken = [(Stage.DETOKENIZE, 1, 1)] * 1_000 + [(Stage.RESPOND, 5, 7), (Stage.RESPOND, 5, 7)]

    intervals, _ = recorded(taken)

    assert [i.end_ns - i.start_ns for i in intervals if i.stage is Stage.RESPOND] == [7, 7]


def test_nothing_noted_is_nothing_packed() -> None:
    assert IntervalRecorder().packed(START_NS) == ""


def test_the_inner_half_of_what_has_begun_is_not_begun_again() -> None:
    recorder = IntervalRecorder()

    assert recorder.begin(Stage.DETOKENIZE)
    assert not recorder.begin(Stage.DETOKENIZE)
    assert recorder.begin(Stage.RESPOND)
    recorder.add(Stage.DETOKENIZE, 1, 2)
    assert recorder.begin(Stage.DETOKENIZE)
