"""Counts in slots, against a plain list of what was counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.model import Tally
from latencytrace.service.objectives.tally_ring import TallyRing

SLOT_NS, SLOTS = 10, 12
BAD = Tally(bad=1, total=1)
EVENTS = st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=60)


def ring_of(events: list[tuple[int, bool]]) -> TallyRing:
    ring = TallyRing(SLOT_NS, SLOT_NS * SLOTS)
    for at_ns, bad in events:
        ring.add(at_ns, Tally(bad=int(bad), total=1))
    return ring


@given(EVENTS, st.integers(1, SLOT_NS * SLOTS))
def test_a_window_holds_what_was_counted_in_its_slots(
    events: list[tuple[int, bool]], window_ns: int
) -> None:
    until_ns = max((at_ns for at_ns, _ in events), default=0)
    first_ns = (until_ns - window_ns) // SLOT_NS * SLOT_NS
    inside = [bad for at_ns, bad in events if at_ns >= first_ns]

    found = ring_of(sorted(events)).tally(until_ns, window_ns)
    assert found == Tally(bad=sum(inside), total=len(inside))


@given(EVENTS)
def test_the_order_of_arrival_does_not_matter(events: list[tuple[int, bool]]) -> None:
    until_ns = max((at_ns for at_ns, _ in events), default=0)
    recent = [(at_ns, bad) for at_ns, bad in events if at_ns > until_ns - SLOT_NS * SLOTS]

    backwards, forwards = ring_of(recent[::-1]), ring_of(recent)
    assert backwards.tally(until_ns, 100) == forwards.tally(until_ns, 100)


@given(EVENTS)
def test_what_was_kept_is_the_same_ring_again(events: list[tuple[int, bool]]) -> None:
    ring, again = ring_of(events), ring_of([])
    again.restore(ring.changes())
    until_ns = max((at_ns for at_ns, _ in events), default=0)

    assert again.tally(until_ns, 120) == ring.tally(until_ns, 120)
    assert list(ring.changes()) == list(again.changes()) == []


@given(EVENTS, st.integers(1, SLOT_NS * SLOTS), st.integers(1, 40))
def test_the_fewest_requests_of_a_while_are_sought_from_the_first_one_on(
    events: list[tuple[int, bool]], window_ns: int, look_ns: int
) -> None:
    until_ns = max((at_ns for at_ns, _ in events), default=0)
    recent = [at_ns // SLOT_NS for at_ns, _ in events if at_ns > until_ns - SLOT_NS * SLOTS]
    first = max(min(recent, default=0), (until_ns - window_ns) // SLOT_NS)
    looks = [
        range(one, one + -(-look_ns // SLOT_NS)) for one in range(first, until_ns // SLOT_NS + 1)
    ]
    whole = [look for look in looks if look.stop <= until_ns // SLOT_NS + 1]
    fewest = [sum(number in look for number in recent) for look in whole]

    found = ring_of([(number * SLOT_NS, False) for number in recent]).fewest(
        until_ns, window_ns, look_ns
    )

    assert found == (min(fewest, default=None) if recent else None)


def test_what_is_too_long_ago_is_refused() -> None:
    ring = ring_of([(300, True)])

    assert not ring.add(300 - (SLOTS + 2) * SLOT_NS, BAD)
    assert ring.tally(300, 120) == BAD


def test_a_steady_window_is_covered_whole() -> None:
    ring = ring_of([(at_ns, False) for at_ns in range(0, 120, 20)])

    assert ring.coverage_ratio(119, 100, silence_ns=10) == 1


def test_a_window_before_the_first_request_is_not_covered() -> None:
    ring = ring_of([(90, False), (100, False), (110, False)])

    assert ring.coverage_ratio(120, 120, silence_ns=10) == 0.25


def test_a_long_silence_is_not_covered() -> None:
    ring = ring_of([(0, False), (60, False), (100, False)])

    assert ring.coverage_ratio(110, 110, silence_ns=40) == 1 - 50 / 110


def test_a_window_without_requests_is_not_covered_at_all() -> None:
    assert ring_of([]).coverage_ratio(100, 50, silence_ns=5) == 0


def test_the_latest_slot_with_requests_is_known() -> None:
    assert (ring_of([]).last_ns(), ring_of([(34, True), (7, True)]).last_ns()) == (None, 30)


@pytest.mark.parametrize("until_ns", [95, 120, 135, 500])
def test_the_slots_of_a_window_add_up_to_its_counts(until_ns: int) -> None:
    ring = ring_of([(5, True), (34, True), (90, False), (96, True), (131, False)])
    first_ns, bad, total = ring.slots(until_ns, 60)

    assert Tally(bad=int(bad.sum()), total=int(total.sum())) == ring.tally(until_ns, 60)
    assert all(
        ring.tally(first_ns + place * SLOT_NS, 0).bad == one for place, one in enumerate(bad)
    )
