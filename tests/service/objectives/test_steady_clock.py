"""Time that goes on, whatever is done to the wall's clock."""

from hypothesis import given
from hypothesis import strategies as st

from latencytrace.service.objectives.evaluator import SteadyClock
from tests.support.fakes.contracts import FakeClock

HOUR_S = 3600
START_NS = 1_763_690_000 * 10**9


def clocks() -> tuple[SteadyClock, FakeClock, FakeClock]:
    wall, monotonic = FakeClock(START_NS), FakeClock(5)
    return SteadyClock(wall, monotonic), wall, monotonic


def test_it_goes_with_the_wall() -> None:
    steady, wall, monotonic = clocks()
    wall.move_s(10)
    monotonic.move_s(10)

    assert (steady(), steady.jumps) == (START_NS + 10 * 10**9, 0)


def test_a_wall_set_forward_is_followed_and_counted() -> None:
    steady, wall, _ = clocks()
    wall.move_s(HOUR_S)

    assert (steady(), steady(), steady.jumps) == (wall(), wall(), 1)


def test_a_wall_set_back_is_not_followed() -> None:
    steady, wall, monotonic = clocks()
    wall.move_s(-HOUR_S)
    monotonic.move_s(1)
    wall.move_s(1)

    assert steady() == START_NS + 10**9
    assert (steady.set_back_ns, steady.jumps) == (HOUR_S * 10**9, 1)


def test_a_wall_set_back_and_right_again_leaves_no_trace() -> None:
    steady, wall, _ = clocks()
    wall.move_s(-HOUR_S)
    steady()
    wall.move_s(HOUR_S)

    assert (steady(), steady.set_back_ns, steady.jumps) == (START_NS, 0, 2)


def test_a_wall_that_is_slewed_is_no_jump() -> None:
    steady, wall, monotonic = clocks()
    wall.move_s(30)
    monotonic.move_s(1)

    assert (steady(), steady.jumps) == (START_NS + 10**9, 0)


@given(st.lists(st.tuples(st.floats(-1e5, 1e5), st.floats(0, 1e3)), max_size=20))
def test_it_never_goes_back(steps: list[tuple[float, float]]) -> None:
    steady, wall, monotonic = clocks()
    read = [steady()]
    for set_s, passed_s in steps:
        wall.move_s(set_s + passed_s)
        monotonic.move_s(passed_s)
        read.append(steady())

    assert read == sorted(read)
