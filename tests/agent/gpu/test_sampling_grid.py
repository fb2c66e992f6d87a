"""When a GPU is read."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from latencytrace.agent.gpu.sampler import MOST_SLOWER, SLOW_NS, STUCK_NS, SamplingGrid

INTERVAL_NS = 200_000_000
COSTS = st.lists(st.integers(min_value=0, max_value=5_000_000_000), max_size=200)


def ran(grid: SamplingGrid, costs_ns: Sequence[int], late_ns: int = 50_000) -> list[int]:
    """When the ticks were due, each of which began a little late."""
    due = []
    for cost_ns in costs_ns:
        due.append(grid.next_ns)
        began_ns = grid.next_ns + late_ns
        grid.ticked(began_ns, began_ns + cost_ns)
    return due


def test_quick_ticks_stay_on_the_grid_however_late_each_begins() -> None:
    due = ran(SamplingGrid(INTERVAL_NS, 7), [1_000_000] * 1000)

    assert due == [7 + k * INTERVAL_NS for k in range(1000)]


@given(COSTS)
def test_a_tick_is_never_due_before_the_one_before_it_ended(costs_ns: list[int]) -> None:
    grid = SamplingGrid(INTERVAL_NS, 0)

    for cost_ns in costs_ns:
        began_ns = grid.next_ns
        grid.ticked(began_ns, began_ns + cost_ns)

        assert grid.next_ns > began_ns + cost_ns


@given(COSTS)
def test_every_tick_is_on_the_grid(costs_ns: list[int]) -> None:
    assert {due % INTERVAL_NS for due in ran(SamplingGrid(INTERVAL_NS, 0), costs_ns)} <= {0}


def test_ticks_that_were_missed_are_counted_and_not_caught_up() -> None:
    grid = SamplingGrid(INTERVAL_NS, 0)

    grid.ticked(0, 3 * INTERVAL_NS + 1)

    assert (grid.next_ns, grid.missed) == (4 * INTERVAL_NS, 3)


def test_slow_ticks_are_made_ever_more_seldom_up_to_a_bound() -> None:
    grid = SamplingGrid(INTERVAL_NS, 0)

    ran(grid, [2 * SLOW_NS] * 3)
    first = grid.slower
    ran(grid, [2 * SLOW_NS] * 100)

    assert (first, grid.slower) == (2, MOST_SLOWER)


def test_one_slow_tick_is_an_accident() -> None:
    grid = SamplingGrid(INTERVAL_NS, 0)

    ran(grid, ([1_000_000] * 30 + [2 * SLOW_NS]) * 10)

    assert grid.slower == 1


def test_a_call_that_hung_is_asked_as_seldom_as_can_be() -> None:
    grid = SamplingGrid(INTERVAL_NS, 0)

    grid.ticked(0, STUCK_NS)

    assert grid.slower == MOST_SLOWER


def test_what_has_become_quick_is_read_often_again() -> None:
    grid = SamplingGrid(INTERVAL_NS, 0)
    grid.ticked(0, STUCK_NS)

    ran(grid, [1_000_000] * 300 * 5)

    assert grid.slower == 1
