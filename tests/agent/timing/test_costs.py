"""What calls of hooks cost, by samples of them."""

import gc
import pickle
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from latencytrace.agent.timing import costs
from latencytrace.agent.timing.costs import HookCost, RequestCost, SampledCall, all_costs, apart


class Spent:
    """A thread's clock of CPU time, which sections move on."""

    def __init__(self) -> None:
        self.ns = 10**9

    def __call__(self) -> int:
        """Return the time."""
        return self.ns


class Call:
    """A call of a hook's, whose methods take so long."""

    sampled: SampledCall | None = None
    is_spared = False

    def __init__(self, clock: Spent) -> None:
        self._clock = clock

    def activate(self) -> None:
        """Make its span current."""
        self._clock.ns += 20

    def finish(self) -> None:
        """Note that it returned."""
        self._clock.ns += 3
        self.end()

    def end(self) -> None:
        """End it."""
        if self.sampled is not None:
            self.sampled.timed(self.ended)

    def ended(self) -> None:
        """End its span."""
        self._clock.ns += 500


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Spent:
    spent = Spent()
    monkeypatch.setattr(costs, "cpu_ns", spent)
    monkeypatch.setattr(costs, "_clock_ns", 0)
    monkeypatch.setattr(costs, "_around_ns", 0)
    return spent


@pytest.fixture
def cost() -> Iterator[HookCost]:
    with apart():
        yield HookCost()


def begun(clock: Spent, took_ns: int) -> Call:
    clock.ns += took_ns
    return Call(clock)


def test_a_call_costs_what_its_sections_take_and_nothing_in_between(
    clock: Spent, cost: HookCost
) -> None:
    call = cost.sample(begun, clock, 100)
    call.activate()
    clock.ns += 10**6  # the program's own
    call.finish()

    assert cost.ns == 100 + 20 + 3 + 500


def test_what_ends_a_call_later_is_a_section_of_it(clock: Spent, cost: HookCost) -> None:
    call = cost.sample(begun, clock, 100)
    clock.ns += 10**6
    call.call.end()  # as a body does that has been read

    assert cost.ns == 100 + 500


def test_the_clock_is_no_part_of_what_it_times(
    clock: Spent, cost: HookCost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "_clock_ns", 30)

    cost.sample(begun, clock, 100)

    assert cost.ns == 70


def test_a_clock_s_first_reading_after_a_while_is_no_part_of_what_it_times(
    cost: HookCost, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = iter([10**9, 10**9 + 900, 10**9 + 940])
    monkeypatch.setattr(costs, "cpu_ns", readings.__next__)
    monkeypatch.setattr(costs, "_clock_ns", 0)

    cost.sampled(lambda: None)

    assert cost.ns == 40


def test_a_clock_that_takes_now_less_now_more_makes_short_sections_no_dearer(
    clock: Spent, cost: HookCost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "_clock_ns", 500)

    for clock_ns in (400, 600) * 8:
        cost.sample(begun, clock, clock_ns + 20)

    assert cost.ns == 20


def test_a_section_that_a_collection_interrupted_is_left_out(clock: Spent, cost: HookCost) -> None:
    cost.sample(begun, clock, 2_000_000).activate()

    assert cost.ns == 20


def test_what_is_done_around_a_function_on_a_thread_is_priced_without_it(
    clock: Spent, cost: HookCost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "_around_ns", 10)

    def ours(kept: list[str], call: Callable[[str, str], str], *args: str, **kwargs: str) -> str:
        clock.ns += 30
        kept.append(call(*args, **kwargs))
        clock.ns += 40
        return kept[0]

    def theirs(first: str, second: str) -> str:
        clock.ns += 10**6
        return first + second

    kept: list[str] = []
    cost.sampled(lambda: None)  # what is done where the work is handed over
    assert cost.around((ours, kept), theirs, "a", second="b") == "ab"

    assert kept == ["ab"]
    assert cost.ns == 30 + 40 - 10


def test_what_times_a_function_on_a_thread_is_no_part_of_what_is_done_around_it(
    cost: HookCost, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = 10**9

    def reading() -> int:
        nonlocal now_ns
        now_ns += 40
        return now_ns

    def ours(call: Callable[[], object]) -> object:
        nonlocal now_ns
        now_ns += 30
        return call()

    monkeypatch.setattr(costs, "cpu_ns", reading)
    monkeypatch.setattr(costs, "_clock_ns", 0)
    monkeypatch.setattr(costs, "_around_ns", 0)
    costs.learn_clock()
    cost.sampled(lambda: None)
    cost.around((ours,), lambda: None)

    assert cost.ns == 30


def test_what_a_function_on_a_thread_raises_passes_through(clock: Spent, cost: HookCost) -> None:
    def theirs() -> None:
        clock.ns += 10
        raise KeyError

    with pytest.raises(KeyError):
        cost.around((lambda call: call(),), theirs)


def test_all_calls_are_counted_and_few_are_samples(clock: Spent, cost: HookCost) -> None:
    samples = 0
    for _ in range(10_000):
        cost.left -= 1
        if cost.left <= 0:
            samples += 1
            cost.sampled(begun, clock, 7)

    assert cost.calls == 10_000
    assert 10_000 / costs.APART / 2 < samples < 10_000 / costs.SOON
    assert cost.ns == 7


def test_what_calls_took_long_ago_counts_less(clock: Spent, cost: HookCost) -> None:
    for _ in range(5_000):
        cost.sampled(begun, clock, 1_000)
    for _ in range(5_000):
        cost.sampled(begun, clock, 100)

    assert cost.ns is not None
    assert 100 <= cost.ns < 110


def test_what_calls_took_in_another_detail_is_forgotten_and_none_of_them_uncounted(
    clock: Spent, cost: HookCost
) -> None:
    cost.sampled(begun, clock, 1_000)
    cost.left -= 1

    calls = cost.calls
    cost.forget()
    cost.left -= 1
    cost.sampled(begun, clock, 10)

    assert cost.calls == calls + 1
    assert cost.ns == 10


def test_calls_within_another_are_priced_and_make_no_span(clock: Spent, cost: HookCost) -> None:
    def inner() -> None:
        clock.ns += 40

    cost.sample(begun, clock, 100)

    assert cost.sample(inner) is None
    assert (cost.ns, cost.samples.spans_ratio) == (70, 0.5)


def test_a_request_that_is_spared_is_no_sample(clock: Spent) -> None:
    with apart():
        cost = RequestCost()
    spared = Call(clock)
    spared.is_spared = True

    found = cost.sampled(lambda: spared)

    assert found is spared
    assert cost.ns is None


def test_a_request_is_sampled_as_it_begins(clock: Spent) -> None:
    with apart():
        cost = RequestCost()

    request = cost.sampled(begun, clock, 100)
    request.finish()

    assert type(request) is Call
    assert cost.ns == 100


def test_what_is_raised_passes_through_and_what_follows_is_priced(
    clock: Spent, cost: HookCost
) -> None:
    def fail() -> None:
        clock.ns += 10
        raise MemoryError

    with pytest.raises(MemoryError):
        cost.sampled(fail)
    cost.sampled(begun, clock, 100)

    assert cost.ns == 50  # of two


def test_a_clock_that_cannot_be_read_is_a_fault_and_no_price(
    cost: HookCost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable() -> int:
        raise MemoryError

    monkeypatch.setattr(costs, "cpu_ns", unreadable)
    faults: list[str] = []
    monkeypatch.setattr(costs, "edge_faults", lambda doing, _: faults.append(doing))

    assert cost.sampled(lambda: "begun") == "begun"
    assert cost.ns == 0
    assert faults == ["reading a thread's clock"] * 3


def test_costs_of_functions_that_are_gone_are_forgotten() -> None:
    cost = HookCost()
    assert cost in all_costs()

    before = len(all_costs())
    del cost
    gc.collect()

    assert len(all_costs()) < before


def test_a_forked_child_counts_anew(clock: Spent, cost: HookCost) -> None:
    cost.sample(begun, clock, 100)

    cost.reset()

    assert (cost.calls, cost.ns) == (0, None)


def test_the_clock_is_learnt_by_reading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "cpu_ns", count(step=40).__next__)

    costs.learn_clock()

    assert costs._clock_ns == 40


def test_a_pickled_one_knows_nothing(clock: Spent, cost: HookCost) -> None:
    cost.sample(begun, clock, 100)

    with apart() as made:
        copied = pickle.loads(pickle.dumps(cost))  # noqa: S301 - our own

    assert made == [copied]
    assert (copied.calls, copied.ns) == (0, None)
