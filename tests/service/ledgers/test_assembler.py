"""When a trace is divided."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.service.ledgers.assembler import (
    AGE_NS,
    AT_ONCE,
    LATE_NS,
    MISSED_NS,
    SECOND_NS,
    STORED_NS,
    Assembler,
)
from latencytrace.service.metrics.span_account import Without
from tests.support.fakes.contracts import FakeClock

ALL = 1000


class Rig:
    """An assembler with its clock."""

    def __init__(self, max_open: int = 100, max_closed: int = 100) -> None:
        self.clock = FakeClock()
        self.assembler = Assembler(self.clock, max_open=max_open, max_closed=max_closed)

    def arrive(self, *trace_ids: str) -> None:
        """Spans of these traces come and are stored, none of them a root."""
        self.come(trace_ids, frozenset())

    def arrive_rooted(self, *trace_ids: str) -> None:
        """The roots of these traces come."""
        self.come(trace_ids, frozenset(trace_ids))

    def come(self, trace_ids: Iterable[str], rooted: frozenset[str]) -> None:
        """A span of each comes, and is stored."""
        spans = dict.fromkeys(trace_ids, 1)
        self.assembler.arrived(spans, rooted)
        self.assembler.stored(spans)

    def due_after_s(self, seconds: float) -> list[str]:
        """What is due once time has passed."""
        self.clock.move_s(seconds)
        due = self.assembler.due(ALL)
        self.assembler.attributed(due)
        return due


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_nothing_is_due_where_nothing_came(rig: Rig) -> None:
    assert rig.due_after_s(1000) == []


def test_a_trace_is_due_a_second_after_its_root(rig: Rig) -> None:
    rig.arrive_rooted("a")

    assert rig.due_after_s(0.999) == []
    assert rig.due_after_s(0.001) == ["a"]


def test_whether_anything_is_due_is_known_without_taking_it(rig: Rig) -> None:
    found = [rig.assembler.is_due()]

    rig.arrive_rooted("a")
    for _ in range(2):
        found.append(rig.assembler.is_due())
        rig.clock.move_s(1)

    assert [*found, rig.assembler.is_due()] == [False, False, True, True]


def test_a_trace_is_due_once(rig: Rig) -> None:
    rig.arrive_rooted("a")

    assert rig.due_after_s(1) == ["a"]
    assert rig.due_after_s(1000) == []


def test_how_late_a_trace_is_taken_is_told_until_the_next_look(rig: Rig) -> None:
    rig.arrive("a")
    rig.due_after_s(34)

    assert rig.assembler.counts.late_ns == 4 * 10**9

    rig.due_after_s(1)

    assert rig.assembler.counts.late_ns == 0


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


def test_an_open_trace_says_what_it_waits_for(rig: Rig) -> None:
    rig.arrive("a")
    rig.clock.move_s(20)
    before = rig.assembler.open_because("a")
    rig.assembler.arrived({"a": 1}, frozenset({"a"}))
    rooted = rig.assembler.open_because("a")
    rig.clock.move_s(1)
    quiet = rig.assembler.open_because("a")
    rig.assembler.stored({"a": 1})
    due = rig.assembler.due(ALL)
    taken = rig.assembler.open_because("a")
    rig.assembler.attributed(due)

    times = "its first span came 20 s ago, its last one 20 s ago"
    assert before == f"the span of its request has not arrived ({times})"
    times = "its first span came 20 s ago, its last one 0 s ago"
    assert rooted == f"spans of it still arrive ({times})"
    times = "its first span came 21 s ago, its last one 1 s ago"
    assert quiet == f"spans of it wait to be stored ({times})"
    assert taken == f"its ledger is being written ({times})"
    assert rig.assembler.open_because("a") is None


def test_a_root_that_comes_last_ends_the_wait(rig: Rig) -> None:
    rig.arrive("a")
    rig.due_after_s(20)
    rig.arrive_rooted("a")

    assert rig.due_after_s(1) == ["a"]


@pytest.mark.parametrize("every_s", [0.5, 1, 2, 5, 20])
def test_an_endless_trace_is_due_soon_and_then_ever_more_seldom(rig: Rig, every_s: float) -> None:
    due_s: list[float] = []
    for number in range(int(600 / every_s)):
        rig.arrive_rooted("a")
        due = rig.due_after_s(every_s)
        due_s += [every_s * (number + 1)] * len(due)

    gaps_s = [after - before for before, after in pairwise([0.0, *due_s])]
    assert due_s[0] <= max(10, every_s)
    assert gaps_s[AT_ONCE:] == sorted(gaps_s[AT_ONCE:])
    assert len(due_s) <= max(AT_ONCE + 10, 600 / 20)


def test_a_trace_that_never_gets_its_root_is_due_when_it_is_old(rig: Rig) -> None:
    spans_s = AGE_NS // SECOND_NS * 2

    def second() -> list[str]:
        rig.arrive("a")
        return rig.due_after_s(0.5)

    assert [due for due in (second() for _ in range(spans_s)) if due] == [["a"]]


def test_a_late_span_makes_its_trace_due_again(rig: Rig) -> None:
    rig.arrive_rooted("a")
    rig.due_after_s(1)
    rig.clock.move_s(5)
    rig.arrive("a")

    assert rig.due_after_s(1) == ["a"]
    assert rig.assembler.counts.late == 0


def test_a_span_that_comes_while_its_trace_is_attributed_makes_it_due_a_second_later(
    rig: Rig,
) -> None:
    rig.arrive_rooted("a")
    rig.clock.move_s(1)
    due = rig.assembler.due(ALL)
    rig.arrive("a")
    rig.assembler.attributed(due)

    assert rig.due_after_s(0.999) == []
    assert rig.due_after_s(0.001) == ["a"]


def test_a_span_that_comes_after_ten_minutes_is_counted_and_left(rig: Rig) -> None:
    rig.arrive_rooted("a")
    rig.due_after_s(1)
    rig.clock.now_ns += LATE_NS + 1
    rig.arrive("a")

    assert rig.due_after_s(1000) == []
    assert rig.assembler.counts.late == 1


def test_a_trace_that_held_no_request_yet_is_never_late(rig: Rig) -> None:
    rig.arrive("a")
    rig.clock.move_s(30)
    rig.assembler.without(rig.assembler.due(ALL), None)
    rig.clock.now_ns += LATE_NS + 1
    rig.arrive_rooted("a")

    assert rig.due_after_s(1) == ["a"]


def divided_without_request(rig: Rig, *, after_s: float) -> list[str]:
    rig.clock.move_s(after_s)
    due = rig.assembler.due(ALL)
    old = [trace_id for trace_id in due if rig.assembler.is_old(trace_id)]
    rig.assembler.without(due, None)
    return old


def test_a_trace_without_request_is_divided_once_more_when_it_is_old(rig: Rig) -> None:
    rig.arrive_rooted("a")  # a server span, say
    early = divided_without_request(rig, after_s=1)
    still = divided_without_request(rig, after_s=29.9)
    old = divided_without_request(rig, after_s=0.1)
    rig.clock.move_s(1000)

    assert (early, still, old) == ([], [], ["a"])
    assert rig.assembler.due(ALL) == []


def test_a_span_that_comes_keeps_a_trace_without_request_young(rig: Rig) -> None:
    rig.arrive_rooted("a")
    divided_without_request(rig, after_s=1)
    rig.clock.move_s(29.5)
    rig.arrive_rooted("a")
    young = divided_without_request(rig, after_s=1)
    still = divided_without_request(rig, after_s=29)
    old = divided_without_request(rig, after_s=1)

    assert (young, still, old) == ([], [], ["a"])


def test_a_trace_without_request_grows_old_after_a_post_that_was_refused(rig: Rig) -> None:
    rig.come(["a"], frozenset())
    rig.clock.move_s(31)
    assert rig.assembler.due(ALL) == ["a"]
    rig.assembler.without(["a"], None)
    rig.assembler.arrived({"a": 1}, frozenset())
    rig.assembler.withdrawn({"a": 1})

    rig.clock.move_s(31)

    assert rig.assembler.due(ALL) == ["a"]
    assert rig.assembler.is_old("a")


def test_a_trace_that_has_grown_old_stays_so(rig: Rig) -> None:
    rig.arrive_rooted("a")
    divided_without_request(rig, after_s=1)
    divided_without_request(rig, after_s=30)
    rig.arrive("a")

    assert divided_without_request(rig, after_s=1) == []
    assert divided_without_request(rig, after_s=29) == ["a"]


def test_a_trace_that_could_not_be_divided_is_due_again(rig: Rig) -> None:
    rig.arrive("a")
    rig.clock.move_s(30)
    rig.assembler.again(rig.assembler.due(ALL))

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


def test_at_the_end_what_has_its_root_and_is_stored_is_taken(rig: Rig) -> None:
    rig.arrive("rootless")
    rig.arrive_rooted("rooted", "waiting")
    rig.assembler.arrived({"waiting": 1}, frozenset())

    assert rig.assembler.close_all() == ["rooted"]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans(), st.floats(0, 2)), max_size=60))
def test_every_trace_is_due_after_its_last_span(steps: list[tuple[str, bool, float]]) -> None:
    rig = Rig(max_open=3)
    pending: set[str] = set()
    for trace_id, rooted, seconds in steps:
        pending.add(trace_id)
        rig.come([trace_id], frozenset(trace_id if rooted else ""))
        pending.difference_update(rig.due_after_s(seconds))

    assert set(rig.due_after_s(30)) == pending
    assert rig.assembler.open_count == 0


# What waits to be stored


def test_a_trace_is_not_due_while_spans_of_it_wait_to_be_stored(rig: Rig) -> None:
    rig.arrive_rooted("a")
    rig.assembler.arrived({"a": 2}, frozenset())

    assert rig.due_after_s(10) == []
    rig.assembler.stored({"a": 2})
    assert rig.due_after_s(0) == ["a"]


def test_a_trace_that_has_grown_old_is_due_without_what_still_waits(rig: Rig) -> None:
    rig.arrive_rooted("a")
    rig.assembler.arrived({"a": 2}, frozenset())
    rig.clock.now_ns += AGE_NS
    [taken] = rig.assembler.due(ALL)
    expected = rig.assembler.expected(taken)
    rig.assembler.attributed([taken])
    rig.assembler.stored({"a": 2})

    assert expected == 1
    assert rig.due_after_s(1) == ["a"]
    assert rig.assembler.account.attributed == 3


def test_spans_whose_sender_was_told_to_send_again_leave_nothing_behind(rig: Rig) -> None:
    rig.assembler.arrived({"a": 2}, frozenset("a"))
    rig.assembler.withdrawn({"a": 2})

    assert rig.due_after_s(1) == []
    assert rig.assembler.account.taken == 0


def test_spans_that_can_never_be_stored_are_counted(rig: Rig) -> None:
    rig.arrive_rooted("a")
    rig.assembler.arrived({"a": 2}, frozenset())
    rig.assembler.refused({"a": 2})

    assert rig.due_after_s(1) == ["a"]
    assert rig.assembler.account.without == {Without.REFUSED: 2}


# What the store does not show


def test_spans_that_the_store_does_not_show_keep_their_trace_open(rig: Rig) -> None:
    rig.arrive_rooted("a")
    rig.clock.move_s(1)
    [taken] = rig.assembler.due(ALL)

    assert rig.assembler.missed(taken, 1)
    assert rig.due_after_s(1) == ["a"]


def test_spans_that_the_store_never_shows_are_lost_and_said_so(rig: Rig) -> None:
    rig.arrive_rooted("a")
    rig.arrive("a")
    rig.clock.move_s(1)
    rig.assembler.missed("a" if rig.assembler.due(ALL) else "", 1)
    rig.clock.now_ns += MISSED_NS
    [taken] = rig.assembler.due(ALL)

    assert not rig.assembler.missed(taken, 1)
    assert rig.assembler.expected(taken) == 1
    rig.assembler.attributed([taken])
    assert rig.assembler.account.without == {Without.LOST: 1}
    assert rig.assembler.account.attributed == 1


def test_spans_of_earlier_divisions_are_expected_again(rig: Rig) -> None:
    rig.arrive_rooted("a")
    rig.due_after_s(1)
    rig.arrive("a")
    rig.clock.move_s(1)

    assert [rig.assembler.expected(trace_id) for trace_id in rig.assembler.due(ALL)] == [2]


def test_spans_whose_root_comes_at_last_are_attributed(rig: Rig) -> None:
    rig.arrive("a")
    rig.clock.move_s(30)
    rig.assembler.without(rig.assembler.due(ALL), None)
    before = rig.assembler.account.rootless
    rig.arrive_rooted("a")
    rig.clock.move_s(1)
    expected = [rig.assembler.expected(one) for one in rig.assembler.due(ALL)]
    rig.assembler.attributed(["a"])

    assert (before, expected) == (1, [2])
    assert (rig.assembler.account.rootless, rig.assembler.account.attributed) == (0, 2)


def test_spans_whose_root_never_comes_are_counted_once_they_are_forgotten() -> None:
    rig = Rig(max_closed=1)
    rig.arrive("a", "b")
    rig.clock.move_s(30)
    rig.assembler.without(rig.assembler.due(ALL), None)

    assert rig.assembler.account.rootless == 1
    assert rig.assembler.account.without == {Without.NO_REQUEST: 1}


def test_spans_whose_arrivals_may_be_gone_are_not_expected(rig: Rig) -> None:
    rig.arrive("a")
    rig.clock.move_s(30)
    rig.assembler.without(rig.assembler.due(ALL), None)
    rig.clock.now_ns += STORED_NS
    rig.arrive_rooted("a")
    rig.clock.move_s(1)

    assert [rig.assembler.expected(one) for one in rig.assembler.due(ALL)] == [1]


def test_a_trace_that_an_earlier_process_left_stays_though_more_of_it_is_refused(
    rig: Rig,
) -> None:
    rig.assembler.left(["a"])
    rig.assembler.arrived({"a": 2}, frozenset())
    rig.assembler.withdrawn({"a": 2})

    assert rig.due_after_s(1) == ["a"]


def test_a_trace_that_turns_out_to_have_been_left_is_due_with_what_came_since(rig: Rig) -> None:
    rig.arrive("a")  # its root is with what was left
    rig.assembler.left(["a"])

    assert rig.due_after_s(1) == ["a"]


# Nothing goes by unaccounted

ENDS = ["attributed", "again", "missed", "rootless", *Without]
moves = st.one_of(
    st.tuples(st.just("come"), st.sampled_from("abcd"), st.integers(1, 3), st.booleans()),
    st.tuples(st.sampled_from(["stored", "withdrawn", "refused"]), st.integers(0, 9)),
    st.tuples(st.just("divide"), st.sampled_from(ENDS)),
    st.tuples(st.just("wait"), st.sampled_from([0, 1, 31, 61, 301, 601])),
)


class Business:
    """An assembler that is kept busy."""

    def __init__(self) -> None:
        self.rig = Rig(max_open=3, max_closed=3)
        self.waiting: list[dict[str, int]] = []
        self.acknowledged = 0

    def come(self, trace_id: str, count: int, rooted: bool) -> None:
        """Spans come and wait."""
        self.waiting.append({trace_id: count})
        self.acknowledged += count
        self.rig.assembler.arrived({trace_id: count}, frozenset(trace_id if rooted else ""))

    def settle(self, how: str, place: int) -> None:
        """What waits is stored, or not."""
        if self.waiting:
            spans = self.waiting.pop(place % len(self.waiting))
            self.acknowledged -= sum(spans.values()) if how == "withdrawn" else 0
            getattr(self.rig.assembler, how)(spans)

    def awaiting_root(self) -> int:
        """Spans of open traces without a root, counted one by one."""
        open_ = self.rig.assembler._open.values()
        return sum(one.spans for one in open_ if not one.rooted)

    def divide(self, end: str) -> None:
        """What is due is divided, with this end."""
        assembler = self.rig.assembler
        for trace_id in assembler.due(ALL):
            if end == "again":
                assembler.again([trace_id])
            elif end == "missed":
                if not assembler.missed(trace_id, 1):
                    assembler.attributed([trace_id])
            elif end == "attributed":
                assembler.attributed([trace_id])
            else:
                assembler.without([trace_id], None if end == "rootless" else Without(end))


@given(st.lists(moves, max_size=60))
def test_every_span_is_open_attributed_or_counted_at_every_moment(
    steps: list[tuple[object, ...]],
) -> None:
    business = Business()
    for name, *arguments in steps:
        if name == "come":
            business.come(*arguments)  # type: ignore[arg-type] # as drawn
        elif name == "divide":
            business.divide(*arguments)  # type: ignore[arg-type] # as drawn
        elif name == "wait":
            business.rig.clock.move_s(*arguments)  # type: ignore[arg-type] # as drawn
        else:
            business.settle(str(name), *arguments)  # type: ignore[arg-type] # as drawn
        assert business.rig.assembler.account.unaccounted == 0
        assert business.rig.assembler.account.taken == business.acknowledged
        assert business.rig.assembler.counts.awaiting_root == business.awaiting_root()

    while business.waiting:
        business.settle("stored", 0)
    for _ in range(4):
        business.rig.clock.move_s(61)
        business.divide("attributed")
    assert business.rig.assembler.account.open == 0
    assert business.rig.assembler.open_count == 0


def test_spans_wait_for_their_root_until_it_comes(rig: Rig) -> None:
    rig.arrive("a", "b")
    rig.arrive("a")
    before = rig.assembler.counts.awaiting_root
    rig.arrive_rooted("a")

    assert (before, rig.assembler.counts.awaiting_root) == (3, 1)
