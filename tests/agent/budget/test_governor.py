"""Detail is lowered while tracing exceeds its budget, and comes back without swinging."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from latencytrace.agent.budget.detail import FULL, LAST, SAMPLED, WITHOUT_CHEAP_CALLS, WITHOUT_GAPS
from latencytrace.agent.budget.keeper import (
    MOST_PATIENCE,
    PATIENCE,
    SPREAD,
    TRIED,
    WINDOW_NS,
    Governor,
)
from tests.support.fakes.contracts import FakeClock

CORE = 1.0  # of CPU time a second


class Load:
    """A process under load, window by window.

    Args:
        process: Its CPU time a second.
    """

    def __init__(self, process: float = CORE) -> None:
        self.clock = FakeClock()
        self.process = process
        self.own_ns = self.process_ns = 0
        self.governor = Governor(0.01, self.clock, 0, 0)

    def window(self, own: float, most: int = LAST) -> int:
        """Let a window pass in which the agent took so many seconds a second."""
        self.clock.now_ns += WINDOW_NS
        self.own_ns += round(own * WINDOW_NS)
        self.process_ns += round(self.process * WINDOW_NS)
        self.governor.update(self.own_ns, self.process_ns, most=most)
        return self.governor.step

    def windows(self, own: float, count: int) -> list[int]:
        """Let some pass."""
        return [self.window(own) for _ in range(count)]


def test_all_detail_is_kept_within_the_budget() -> None:
    load = Load()

    assert load.windows(0.0099, 50) == [FULL] * 50
    assert load.governor.share_ratio == 0.0099


def test_nothing_is_decided_before_a_window_has_passed() -> None:
    load = Load()
    load.clock.now_ns += WINDOW_NS - 1

    decided = load.governor.update(WINDOW_NS, WINDOW_NS)

    assert not decided
    assert load.governor.step == FULL


def test_a_little_too_much_takes_one_step() -> None:
    assert Load().window(0.015) == WITHOUT_GAPS


def test_steps_go_on_while_it_is_too_much() -> None:
    assert Load().windows(0.015, 4) == [1, 2, WITHOUT_CHEAP_CALLS, SAMPLED]


def test_far_too_much_is_sampled_at_once_by_as_much_as_it_exceeds() -> None:
    load = Load()

    assert load.window(0.16) == SAMPLED + 3  # one of 16 traces
    assert load.window(0.02) == SAMPLED + 4


def test_a_process_that_does_not_fill_a_core_is_allowed_as_much_as_one_that_does() -> None:
    load = Load(process=0.001)

    assert load.windows(0.0099, 20) == [FULL] * 20
    assert load.window(0.011) == WITHOUT_GAPS


def test_the_share_is_of_what_the_budget_is_of() -> None:
    load = Load(process=0.001)

    load.window(0.0005)

    assert load.governor.share_ratio == 0.0005


def test_a_process_on_many_cores_is_allowed_its_share_of_them() -> None:
    load = Load(process=8.0)

    assert load.windows(0.079, 20) == [FULL] * 20
    assert load.window(0.085) == WITHOUT_GAPS


def test_beyond_the_last_step_it_says_that_the_budget_is_not_held() -> None:
    load = Load()

    load.windows(0.9, 8)

    assert load.governor.step == LAST
    assert not load.governor.is_held


def test_it_does_not_sample_where_somebody_else_does() -> None:
    load = Load()

    steps = [load.window(0.5, most=WITHOUT_CHEAP_CALLS) for _ in range(6)]

    assert max(steps) == WITHOUT_CHEAP_CALLS
    assert not load.governor.is_held


def test_details_that_save_next_to_nothing_come_back_where_nobody_may_sample() -> None:
    load = Load()

    steps = [load.window(0.06, most=WITHOUT_CHEAP_CALLS) for _ in range(TRIED + 2)]

    assert steps == [WITHOUT_CHEAP_CALLS] * TRIED + [FULL] * 2
    assert not load.governor.is_held


def test_details_that_save_much_stay_left_out_though_the_budget_is_not_held() -> None:
    load = Load()
    load.window(0.06, most=WITHOUT_CHEAP_CALLS)

    steps = [load.window(0.04, most=WITHOUT_CHEAP_CALLS) for _ in range(MOST_PATIENCE)]

    assert set(steps) == {WITHOUT_CHEAP_CALLS}
    assert not load.governor.is_held


def test_what_saved_nothing_is_tried_again_after_ten_minutes() -> None:
    load = Load()

    steps = [load.window(0.06, most=WITHOUT_CHEAP_CALLS) for _ in range(2 * MOST_PATIENCE)]

    assert steps.count(WITHOUT_CHEAP_CALLS) == 2 * TRIED


def test_it_samples_at_once_where_it_may_again() -> None:
    load = Load()
    for _ in range(2 * TRIED):
        load.window(0.06, most=WITHOUT_CHEAP_CALLS)

    assert load.window(0.06) >= SAMPLED


def test_it_stops_to_sample_once_somebody_else_does() -> None:
    load = Load()
    load.window(0.16)

    assert load.window(0.001, most=WITHOUT_CHEAP_CALLS) == WITHOUT_CHEAP_CALLS


def test_detail_returns_step_by_step_after_a_quiet_time() -> None:
    load = Load()
    load.windows(0.015, 2)

    steps = load.windows(0.001, 2 * PATIENCE)

    assert steps == [2] * (PATIENCE - 1) + [1] * PATIENCE + [FULL]


def test_a_cost_just_below_the_budget_brings_nothing_back() -> None:
    load = Load()
    load.window(0.015)

    assert set(load.windows(0.0085, 100)) == {WITHOUT_GAPS}


def test_a_load_at_the_edge_swings_more_and_more_rarely() -> None:
    load = Load()
    steps = [load.window(0.015)]

    for _ in range(600):
        steps.append(load.window(0.015 if steps[-1] == FULL else 0.003))

    raised = [number for number in range(1, len(steps)) if steps[number] < steps[number - 1]]
    pauses = [later - earlier for earlier, later in pairwise(raised)]
    assert pauses == sorted(pauses)
    assert len(raised) < 10
    assert max(pauses) <= MOST_PATIENCE + 1


def test_after_a_raise_that_lasts_it_is_less_patient_again() -> None:
    load = Load()
    load.window(0.015)
    load.windows(0.003, PATIENCE)
    load.window(0.015)  # too early
    patient = load.windows(0.003, 2 * PATIENCE)
    load.windows(0.003, 30)
    load.window(0.015)

    again = load.windows(0.003, PATIENCE)

    assert patient == [1] * (2 * PATIENCE - 1) + [FULL]
    assert again == [1] * (PATIENCE - 1) + [FULL]


@given(st.lists(st.floats(0, 2), max_size=60), st.sampled_from([WITHOUT_CHEAP_CALLS, LAST]))
def test_a_step_is_always_one_that_there_is(costs: list[float], most: int) -> None:
    load = Load()

    steps = [load.window(own, most) for own in costs]

    assert all(FULL <= step <= most for step in steps)


@given(st.floats(0.02, 1.0))
def test_a_cost_that_falls_with_the_share_of_traces_comes_within_the_budget(cost: float) -> None:
    load = Load()
    steps = [FULL]

    for _ in range(12):
        share = 2.0 ** (SAMPLED - 1 - steps[-1]) if steps[-1] >= SAMPLED else 1.0
        steps.append(load.window(cost * share))

    share = 2.0 ** (SAMPLED - 1 - steps[-1])
    assert round(cost * share * WINDOW_NS) <= 0.01 * WINDOW_NS


def test_what_it_takes_to_leave_requests_out_lowers_the_share_no_further() -> None:
    load = Load()
    load.window(0.16)
    dropped_ns = 0

    for _ in range(8):
        load.clock.now_ns += WINDOW_NS
        dropped_ns += round(0.02 * WINDOW_NS)  # twice the budget by itself
        load.own_ns += round(0.0215 * WINDOW_NS)
        load.process_ns += WINDOW_NS
        load.governor.update(load.own_ns, load.process_ns, dropped_ns=dropped_ns)

    assert load.governor.step == SAMPLED + 3
    assert not load.governor.is_held


def _reporting_window(load: Load, own: float, reporting_ns: int) -> int:
    load.clock.now_ns += WINDOW_NS
    load.own_ns += round(own * WINDOW_NS)
    load.process_ns += WINDOW_NS
    load.governor.update(load.own_ns, load.process_ns, reporting_ns=reporting_ns)
    return load.governor.step


def test_what_is_measured_once_a_minute_lowers_nothing() -> None:
    load = Load(process=0.35)
    reporting_ns = 0
    steps = []
    for number in range(36):
        measures = number % SPREAD == 0
        once = 0.018 if measures else 0.0
        reporting_ns += round((once + 0.0005) * WINDOW_NS)
        steps.append(_reporting_window(load, 0.006 + 0.0005 + once, reporting_ns))
        assert load.governor.is_held

    assert steps == [FULL] * 36


def test_reporting_that_takes_all_of_the_budget_leaves_a_quarter_of_it() -> None:
    load = Load()
    reporting_ns = 0
    for _ in range(2 * SPREAD):
        reporting_ns += round(0.012 * WINDOW_NS)
        _reporting_window(load, 0.012 + 0.002, reporting_ns)

    assert load.governor.step == FULL
    assert not load.governor.is_held
