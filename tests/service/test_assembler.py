"""When a trace is divided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.service.assembler import AGE_NS, LATE_NS, SECOND_NS, Assembler
from tests.fakes import FakeClock

ALL = 1000


class Rig:
    """An assembler with its clock."""

    def __init__(self, max_open: int = 100, max_closed: int = 100) -> None:
        self.clock = FakeClock()
        self.assembler = Assembler(self.clock, max_open=max_open, max_closed=max_closed)

    def arrive(self, *trace_ids: str) -> None:
        """Spans of these traces come, none of them a root."""
        self.assembler.arrived(trace_ids, frozenset())

    def arrive_rooted(self, *trace_ids: str) -> None:
        """The roots of these traces come."""
        self.assembler.arrived(trace_ids, frozenset(trace_ids))

    def due_after_s(self, seconds: float) -> list[str]:
        """What is due once time has passed."""
        self.clock.move_s(seconds)
        return self.assembler.due(ALL)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_nothing_is_due_where_nothing_came(rig: Rig) -> None:
    assert rig.due_after_s(1000) == []


def test_a_trace_is_due_a_second_after_its_root(rig: Rig) -> None:
    rig.arrive_rooted("a")

    assert rig.due_after_s(0.999) == []
    assert rig.due_after_s(0.001) == ["a"]


def test_a_trace_is_due_once(rig: Rig) -> None:
    rig.arrive_rooted("a")

    assert rig.due_after_s(1) == ["a"]
    assert rig.due_after_s(1000) == []


def test_every_span_puts_its_trace_off(rig: Rig) -> None:
    rig.arrive_rooted("a")
    rig.due_after_s(0.9)
    rig.arrive("a")

    assert rig.due_after_s(0.9) == []
    assert rig.due_after_s(0.1) == ["a"]


def test_a_trace_without_root_waits_half_a_minute(rig: Rig) -> None:
    rig.arrive("a")

    assert rig.due_after_s(29.9) == []
    assert rig.due_after_s(0.1) == ["a"]


def test_a_root_that_comes_last_ends_the_wait(rig: Rig) -> None:
    rig.arrive("a")
    rig.due_after_s(20)
    rig.arrive_rooted("a")

    assert rig.due_after_s(1) == ["a"]


def test_an_endless_trace_is_due_when_it_is_old(rig: Rig) -> None:
    spans_s = AGE_NS // SECOND_NS * 2

    def second() -> list[str]:
        rig.arrive_rooted("a")
        return rig.due_after_s(0.5)

    assert [due for due in (second() for _ in range(spans_s)) if due] == [["a"]]


def test_a_late_span_makes_its_trace_due_again(rig: Rig) -> None:
    rig.arrive_rooted("a")
    rig.due_after_s(1)
    rig.clock.move_s(5)
    rig.arrive("a")

    assert rig.due_after_s(1) == ["a"]
    assert rig.assembler.counts.late == 0


def test_a_span_that_comes_after_ten_minutes_is_counted_and_left(rig: Rig) -> None:
    rig.arrive_rooted("a")
    rig.due_after_s(1)
    rig.clock.now_ns += LATE_NS + 1
    rig.arrive("a")

    assert rig.due_after_s(1000) == []
    assert rig.assembler.counts.late == 1


def test_a_trace_that_held_no_request_yet_is_never_late(rig: Rig) -> None:
    rig.arrive("a")
    rig.assembler.forget(rig.due_after_s(30))
    rig.clock.now_ns += LATE_NS + 1
    rig.arrive_rooted("a")

    assert rig.due_after_s(1) == ["a"]


def test_a_trace_that_could_not_be_divided_is_due_again(rig: Rig) -> None:
    rig.arrive("a")
    rig.assembler.again(rig.due_after_s(30))

    assert rig.due_after_s(1) == ["a"]


def test_the_oldest_of_too_many_open_traces_is_due_at_once() -> None:
    rig = Rig(max_open=2)
    rig.arrive("a", "b", "c")

    assert rig.due_after_s(0) == ["a"]
    assert rig.assembler.counts.evicted == 1
    assert rig.assembler.open_count == 2


def test_spans_of_an_evicted_trace_make_it_due_again() -> None:
    rig = Rig(max_open=1)
    rig.arrive("a", "b")
    rig.due_after_s(0)
    rig.arrive_rooted("b")
    rig.due_after_s(1)
    rig.arrive("a")

    assert rig.due_after_s(1) == ["a"]


def test_too_many_that_nobody_takes_fill_it_up() -> None:
    rig = Rig(max_open=2)
    rig.arrive("a", "b", "c", "d")
    before = rig.assembler.is_overfull
    rig.arrive("e")

    assert (before, rig.assembler.is_overfull) == (False, True)


def test_no_more_are_due_than_asked_for(rig: Rig) -> None:
    rig.arrive_rooted("a", "b", "c")
    rig.clock.move_s(1)

    assert [len(rig.assembler.due(2)) for _ in range(3)] == [2, 1, 0]


def test_closed_traces_are_forgotten_beyond_the_bound() -> None:
    rig = Rig(max_closed=1)
    rig.arrive_rooted("a")
    rig.due_after_s(1)
    rig.arrive_rooted("b")
    rig.due_after_s(1)
    rig.clock.now_ns += LATE_NS + 1
    rig.arrive_rooted("a", "b")

    assert rig.due_after_s(1) == ["a"]
    assert rig.assembler.counts.late == 1


def test_at_the_end_what_has_its_root_is_closed(rig: Rig) -> None:
    rig.arrive("rootless")
    rig.arrive_rooted("rooted")

    assert rig.assembler.close_all() == ["rooted"]
    assert rig.assembler.open_count == 0


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans(), st.floats(0, 2)), max_size=60))
def test_every_trace_is_due_after_its_last_span(steps: list[tuple[str, bool, float]]) -> None:
    rig = Rig(max_open=3)
    pending: set[str] = set()
    for trace_id, rooted, seconds in steps:
        pending.add(trace_id)
        rig.assembler.arrived([trace_id], frozenset(trace_id if rooted else ""))
        pending.difference_update(rig.due_after_s(seconds))

    assert set(rig.due_after_s(30)) == pending
    assert rig.assembler.open_count == 0
