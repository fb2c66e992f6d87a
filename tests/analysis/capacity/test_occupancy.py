"""How many requests are under way, held against counting them one by one."""

import numpy as np

from latencytrace.analysis.capacity.occupancy import MOST_AT_ONCE, Occupancy
from latencytrace.model.cohorts.request_columns import RequestTimes


def made(seed: int) -> RequestTimes:
    """Requests with starts and ends that fall together."""
    random = np.random.default_rng(seed)
    start_ns = np.sort(random.integers(0, 3_000, 200))
    duration_ns = random.integers(0, 60, 200)
    rows = np.column_stack([start_ns, duration_ns, random.random(200) < 0.8, np.ones(200)])
    return RequestTimes.of(rows.astype(np.int64))


def test_rows_are_put_in_order_of_start() -> None:
    times = RequestTimes.of(np.array([[30, 5, 1, 1], [10, 7, 0, 1]], np.int64))

    assert times.start_ns.tolist() == [10, 30]
    assert times.duration_ns.tolist() == [7, 5]
    assert times.served.tolist() == [False, True]


def test_time_and_what_was_served_are_those_of_each_nanosecond() -> None:
    for seed in range(5):
        times = made(seed)
        found = Occupancy.of(times)
        first, last = int(found.edges_ns[0]), int(found.edges_ns[-1])
        ends_ns = times.start_ns + times.duration_ns

        for block, levels in enumerate(found.time_ns):
            expected = np.zeros(len(levels))
            for at in range(int(found.edges_ns[block]), int(found.edges_ns[block + 1])):
                expected[((times.start_ns <= at) & (at < ends_ns)).sum()] += 1
            assert levels.tolist() == expected.tolist()
        within = times.served & (ends_ns >= first) & (ends_ns < last)
        assert found.served.sum() == within.sum()


def test_who_comes_and_who_leaves_counts_itself() -> None:
    times = RequestTimes.of(
        np.array([[0, 100, 1, 1], [10, 20, 1, 1], [20, 20, 1, 1], [40, 10, 1, 1]], np.int64)
    )
    found = Occupancy.of(times)

    assert found.coming(times.start_ns).tolist() == [1, 2, 3, 2]
    assert found.leaving(times.start_ns + times.duration_ns).tolist() == [1, 3, 2, 2]


def test_both_ends_are_left_out_for_as_long_as_most_requests_take() -> None:
    start_ns = np.arange(0, 10_000, 10)
    rows = np.column_stack([start_ns, np.full(1000, 300), np.ones(1000), np.ones(1000)])

    found = Occupancy.of(RequestTimes.of(rows.astype(np.int64)))

    assert (int(found.edges_ns[0]), int(found.edges_ns[-1])) == (300, 9_690)
    assert found.time_ns.sum(axis=0)[30] == found.length_ns


def test_very_many_at_once_are_counted_as_the_most() -> None:
    count = MOST_AT_ONCE + 500
    rows = np.column_stack(
        [np.arange(count), np.full(count, 10**9), np.ones(count), np.ones(count)]
    )

    found = Occupancy.of(RequestTimes.of(rows.astype(np.int64)))

    assert found.time_ns.shape[1] == MOST_AT_ONCE + 1
    assert found.time_ns.sum() == found.length_ns
