"""Work interleaved with a span: bounded, and exact in its total."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from latencytrace.agent.timing.intervals import HELD, IntervalRecorder, merged
from latencytrace.model import Interval, Stage, semconv
from latencytrace.model.packed import MAX_INTERVALS, unpack_intervals

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
    found = recorder.taken(START_NS)
    packed = str(found.attributes()[semconv.INTERVALS]) if found is not None else ""
    return unpack_intervals(packed, START_NS), total_ns


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


def merged_pairs(times: list[int]) -> list[int]:
    """Merge each two neighbours, said plainly."""
    found = []
    for at in range(0, len(times) - 3, 4):
        start_ns, end_ns, next_start_ns, next_end_ns = times[at : at + 4]
        found += [next_start_ns - end_ns + start_ns, next_end_ns]
    return found + times[len(found) * 2 :]


@given(st.lists(st.integers(0, 10**9), max_size=120), st.integers(0, 4))
def test_many_neighbours_merge_as_pairs_of_pairs_would(gaps: list[int], doublings: int) -> None:
    times = list(accumulate(gaps[: len(gaps) // 2 * 2]))

    expected = times
    for _ in range(doublings):
        expected = merged_pairs(expected)

    assert merged(times, 2**doublings) == expected


@given(steps)
def test_what_is_given_away_is_what_would_be_packed(taken: list[tuple[Stage, int, int]]) -> None:
    recorder = IntervalRecorder()
    now_ns = START_NS
    for stage, gap_ns, length_ns in taken:
        recorder.add(stage, now_ns + gap_ns, now_ns + gap_ns + length_ns)
        now_ns += gap_ns + length_ns
    at_once = recorder.packed(START_NS)

    given_away = recorder.taken(START_NS)
    recorder.add(Stage.RESPOND, 1, 2)  # too late: the span has ended

    assert (given_away is None) == (not taken)
    assert given_away is None or given_away.attributes() == {semconv.INTERVALS: at_once}


def test_who_notes_holds_on_to_one_list_however_much_is_noted() -> None:
    recorder = IntervalRecorder()
    times = recorder.times(Stage.RESPOND)
    for at_ns in range(START_NS, START_NS + 20 * HELD, 20):
        recorder.add(Stage.RESPOND, at_ns, at_ns + 10)

    assert recorder.times(Stage.RESPOND) is times
    assert len(times) <= HELD


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
    assert IntervalRecorder().taken(START_NS) is None


def test_the_inner_half_of_what_has_begun_is_not_begun_again() -> None:
    recorder = IntervalRecorder()

    assert recorder.begin(Stage.DETOKENIZE)
    assert not recorder.begin(Stage.DETOKENIZE)
    assert recorder.begin(Stage.RESPOND)
    recorder.add(Stage.DETOKENIZE, 1, 2)
    assert recorder.begin(Stage.DETOKENIZE)
