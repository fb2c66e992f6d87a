"""The agent's cost taken every round, and the detail that follows from it."""

from latencytrace.agent.budget.detail import LAST, WITHOUT_CHEAP_CALLS, Detail
from latencytrace.agent.budget.keeper import CHEAP_NS, WINDOW_NS, BudgetKeeper, Overhead
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans
from tests.support.fakes.contracts import FakeClock


class Program:
    """A program whose agent keeps a budget.

    Args:
        budget_ratio: Of its CPU time; None: no budget.
    """

    def __init__(self, budget_ratio: float | None) -> None:
        self.clock = FakeClock()
        self.detail = Detail()
        self.own_ns = 0
        self.waiting: list[RecordedSpan] = []
        self.keeper = BudgetKeeper(self.detail, budget_ratio, self.clock, self.clock)  # one core

    def window(self, own: float, *, may_sample: bool = True) -> Overhead:
        """Let a window pass in which the agent took so many seconds a second."""
        self.clock.now_ns += WINDOW_NS
        self.own_ns += round(own * WINDOW_NS)
        self.keeper.update(self.own_ns, self.some, may_sample=may_sample)
        return self.keeper.read()

    def some(self, most: int) -> list[RecordedSpan]:
        """Some spans that have ended."""
        return self.waiting[:most]


def calls(name: str, length_ns: int, count: int = 20, stage: Stage = Stage.TOKENIZE) -> Spans:
    """Timed calls of one length."""
    spans = Spans()
    for _ in range(count):
        timing = spans.recorder.start(name, stage, started_ns=1_000)
        timing.end(1_000 + length_ns)
    return spans


def test_without_a_budget_all_detail_is_kept_whatever_it_costs() -> None:
    program = Program(None)

    state = program.window(0.9)

    assert state == Overhead()


def test_the_state_says_what_is_left_out_and_what_it_took() -> None:
    program = Program(0.01)

    state = program.window(0.015)

    assert (state.budget_ratio, state.share_ratio) == (0.01, 0.015)
    assert (state.step, state.lacks, state.sampling_ratio) == (1, "no_runtime_gaps", 1.0)
    assert not program.detail.gaps


def test_a_budget_that_cannot_be_held_is_said_so() -> None:
    program = Program(0.0001)

    states = [program.window(0.9) for _ in range(4)]

    assert (states[-1].step, states[-1].is_held) == (LAST, False)


def test_where_the_program_samples_by_itself_no_trace_is_left_out() -> None:
    program = Program(0.01)

    state = program.window(0.5, may_sample=False)

    assert (state.step, state.sampling_ratio) == (WITHOUT_CHEAP_CALLS, 1.0)


def test_calls_that_take_hardly_longer_than_to_time_them_are_left_out() -> None:
    program = Program(0.01)
    program.waiting = calls("encode", CHEAP_NS // 2).all + calls("search", CHEAP_NS * 2).all

    for _ in range(3):
        program.window(0.015)

    assert program.detail.cheap == {"encode"}
    assert program.detail.skips("encode")
    assert not program.detail.skips("search")


def test_a_call_that_was_seen_a_few_times_only_is_not_judged() -> None:
    program = Program(0.01)
    program.waiting = calls("encode", CHEAP_NS // 2, count=2).all

    for _ in range(3):
        program.window(0.015)

    assert program.detail.step == WITHOUT_CHEAP_CALLS
    assert program.detail.cheap == frozenset()


def test_all_calls_are_timed_again_once_detail_returns() -> None:
    program = Program(0.01)
    program.waiting = calls("encode", CHEAP_NS // 2).all
    for _ in range(3):
        program.window(0.015)

    for _ in range(3):
        program.window(0.001)

    assert program.detail.cheap == frozenset()
