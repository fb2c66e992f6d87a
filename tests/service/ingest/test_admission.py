"""How many more spans may come."""

import pytest

from latencytrace.service.ingest.admission import (
    BATCH_S,
    FIRST_RATE,
    LEAST_BYTES,
    WORK_S,
    Admission,
)
from tests.support.fakes.contracts import FakeClock

MUCH = LEAST_BYTES + 1


class Rig:
    """An admission with its clock."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.admission = Admission(self.clock)

    def attribute(self, spans: int, *, took_s: float, is_large: bool = True) -> None:
        """A batch of so many spans."""
        self.admission.begin()
        self.clock.move_s(took_s)
        self.admission.end(spans, is_large=is_large)

    def most(self) -> int:
        """The most work beside which more is let in."""
        return max(work for work in range(30_001) if self.admission.has_room(work, MUCH))


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_before_the_first_batch_a_slow_pace_is_expected(rig: Rig) -> None:
    assert rig.most() == WORK_S * FIRST_RATE


def test_as_much_is_let_in_as_is_attributed_in_so_many_seconds(rig: Rig) -> None:
    rig.attribute(1500, took_s=1)

    assert rig.most() == WORK_S * 1500


def test_the_latest_batches_tell_the_pace(rig: Rig) -> None:
    rig.attribute(3000, took_s=1)
    rig.admission.rest()
    rig.attribute(1000, took_s=1)

    assert rig.most() == WORK_S * 2000


def test_a_small_batch_says_nothing_of_the_pace(rig: Rig) -> None:
    rig.attribute(1500, took_s=1)
    rig.attribute(1, took_s=1, is_large=False)

    assert rig.most() == WORK_S * 1500


def test_work_between_two_batches_is_part_of_the_pace(rig: Rig) -> None:
    rig.attribute(1000, took_s=1)
    rig.clock.move_s(1)
    rig.attribute(1000, took_s=0)

    assert rig.most() == WORK_S * 1000


def test_a_rest_is_no_part_of_the_pace(rig: Rig) -> None:
    rig.attribute(1000, took_s=1)
    rig.admission.rest()
    rig.clock.move_s(100)
    rig.attribute(1000, took_s=1)

    assert rig.most() == WORK_S * 1000


def test_nothing_more_is_let_in_while_a_batch_takes_too_long(rig: Rig) -> None:
    rig.admission.begin()
    rig.clock.move_s(BATCH_S + 1)

    assert not rig.admission.has_room(0, MUCH)


def test_nothing_more_is_let_in_while_what_is_due_waits_too_long(rig: Rig) -> None:
    late_ns = int((BATCH_S + 1) * 1e9)

    assert rig.admission.has_room(0, MUCH, late_ns // 2)
    assert not rig.admission.has_room(0, MUCH, late_ns)


def test_few_bytes_are_always_let_in(rig: Rig) -> None:
    assert rig.admission.has_room(1 << 40, LEAST_BYTES)
