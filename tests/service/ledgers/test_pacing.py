"""Pauses between pieces of work: how long, and who cuts them short."""

import threading
from unittest.mock import Mock

from latencytrace.service.ledgers.pacing import Rests
from tests.support.fakes.contracts import FakeClock

RATIO = 30
FOR_EVER_S = 1e6  # of the fake clock's time a pause would take, so that a test would hang


def resting(rests: Rests) -> threading.Thread:
    thread = threading.Thread(target=rests.rest, daemon=True)
    thread.start()
    return thread


def working(most_s: float) -> Rests:
    """After so much work that its pause is longer than `FOR_EVER_S`."""
    clock = FakeClock()
    rests = Rests(RATIO, clock)
    rests.begin(most_s)
    clock.move_s(FOR_EVER_S)
    return rests


def test_before_work_has_begun_there_is_nothing_to_rest_from() -> None:
    clock = FakeClock()
    rests = Rests(RATIO, clock)
    clock.move_s(FOR_EVER_S)

    rests.rest()


def test_a_piece_that_took_no_time_needs_no_rest() -> None:
    rests = Rests(RATIO, FakeClock())
    rests.begin(FOR_EVER_S)

    rests.rest()


def test_all_rests_together_are_no_longer_than_was_said() -> None:
    rests = working(most_s=0.01)

    rests.rest()
    rests.rest()


def test_much_work_that_comes_again_has_even_rests() -> None:
    clock = FakeClock()
    rests = Rests(RATIO, clock)
    pauses: list[float] = []
    noting = Mock(side_effect=lambda _, pause_s: pauses.append(pause_s))
    rests._changed.wait_for = noting  # type: ignore[method-assign] # noqa: SLF001 - to count
    for pieces in (4, 4, 2, 2):
        rests.begin(6)
        for _ in range(pieces):
            clock.move_s(1)
            rests.rest()

    assert pauses == [6, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 3, 3]


def test_who_waits_for_the_work_lets_it_have_no_rest() -> None:
    rests = working(FOR_EVER_S)

    with rests.hurried():
        rests.rest()


def test_who_comes_later_ends_the_rest() -> None:
    rests = working(FOR_EVER_S)
    thread = resting(rests)
    thread.join(0.01)
    was_resting = thread.is_alive()

    with rests.hurried():
        thread.join(10)

    assert was_resting
    assert not thread.is_alive()


def test_at_the_end_nothing_rests_any_more() -> None:
    rests = working(FOR_EVER_S)
    thread = resting(rests)
    thread.join(0.01)

    rests.end()

    thread.join(10)
    assert not thread.is_alive()
    rests.begin(FOR_EVER_S)
    rests.rest()


def test_who_waited_once_hurries_nobody_later() -> None:
    rests = working(FOR_EVER_S)
    with rests.hurried():
        pass
    thread = resting(rests)
    thread.join(0.01)

    assert thread.is_alive()
    rests.end()
    thread.join(10)
