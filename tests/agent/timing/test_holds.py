"""When a thread could take up nothing else, as its requests read it."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from latencytrace.agent.timing.holds import NOTICED_NS, Holds, Wait

MS = 1_000_000
stretches = st.lists(st.tuples(st.integers(0, 400), st.integers(1, 90)), max_size=20)


@given(stretches, st.integers(0, 500), st.integers(1, 500))
def test_a_wait_is_behind_the_holds_that_it_overlaps_and_named_after_the_longest(
    found: list[tuple[int, int]], since: int, length: int
) -> None:
    holds, taken, at, before = Holds(), dict[str, int](), 0, set[int]()
    since_ns, until_ns = since * MS, (since + length) * MS
    for number, (gap, held) in enumerate(found):
        start, end = at + gap, at + gap + held
        came = start - number  # longer ago than it was taken up
        holds.note(start * MS, end * MS, str(number), came * MS)
        at = end
        shared_ns = min(end * MS, until_ns) - max(start * MS, since_ns)
        if shared_ns > 0:
            taken[str(number)] = shared_ns
            before |= {came} if came <= since else set()

    wait = holds.wait(since_ns, until_ns)

    assert (wait is None) == (not taken)
    assert wait is None or wait.behind == len(before)
    assert wait is None or taken[wait.by] == max(taken.values())


@given(stretches, st.lists(st.integers(0, 100), min_size=20, max_size=20), st.integers(1, 500))
def test_what_no_processor_explains_of_a_wait_is_held(
    found: list[tuple[int, int]], percents: list[int], until: int
) -> None:
    holds, at, waited_ns = Holds(), 0, 0
    for (gap, held), percent in zip(found, percents, strict=False):
        start_ns, end_ns = (at + gap) * MS, (at + gap + held) * MS
        at += gap + held
        holds.note(start_ns, end_ns, "one", waited_ns=held * MS * percent // 100)
        shared_ns = max(min(end_ns, until * MS) - start_ns, 0)
        waited_ns += held * MS * percent // 100 * shared_ns // (end_ns - start_ns)

    wait = holds.wait(0, until * MS)

    if wait is not None:
        least_ns = min(wait.processor_ns, until * MS - wait.processor_ns)
        assert least_ns == 0 or least_ns >= NOTICED_NS  # neither part is too short to be one
        assert abs(wait.processor_ns - waited_ns) < NOTICED_NS


def test_a_wait_of_less_than_a_millisecond_is_none() -> None:
    holds = Holds()
    holds.note(0, NOTICED_NS, "one")

    assert holds.wait(0, NOTICED_NS - 1) is None
    assert holds.wait(0, NOTICED_NS) == Wait(0, NOTICED_NS, "one", 0)


def test_holds_that_follow_each_other_closely_are_one_and_others_are_not() -> None:
    holds = Holds()
    holds.note(0, 30 * MS, "one")
    holds.note(31 * MS, 60 * MS, "two")
    assert holds.lately(61 * MS) == (0, 60 * MS)

    holds.note(10_000 * MS, 10_030 * MS, "three")

    assert holds.lately(10_031 * MS) == (10_000 * MS, 10_030 * MS)
    assert holds.lately(20_000 * MS) is None


def test_a_hold_within_another_s_time_begins_when_that_one_ended() -> None:
    holds = Holds()
    holds.note(0, 30 * MS, "one", 0)
    holds.note(10 * MS, 50 * MS, "two", -5 * MS)

    assert holds.wait(0, 50 * MS) == Wait(0, 50 * MS, "one", 2)


def test_a_thread_is_not_held_by_what_another_does() -> None:
    holds = Holds()
    other = threading.Thread(target=holds.note, args=(0, 30 * MS, "other"))
    other.start()
    other.join()

    assert holds.lately(31 * MS) is None
    assert holds.wait(0, 30 * MS) is None
