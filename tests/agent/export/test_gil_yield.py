"""Pauses of a background thread: a yield where nobody waits, a sleep where somebody does."""

import sys
import threading
from collections.abc import Iterator

import pytest

from latencytrace.agent.export.exporter import SLEEP_S, GilYield, yielding
from tests.support.fakes.contracts import FakeClock
from tests.support.waiting import PATIENCE_S

SHORT_NS = 800


class Yields:
    """Takes as long as it is told."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.takes_ns = SHORT_NS
        self.slept: list[float] = []
        self.pause = GilYield(self._yield, self.slept.append, self.clock)

    def _yield(self) -> None:
        self.clock.now_ns += self.takes_ns


@pytest.fixture
def yields() -> Yields:
    return Yields()


@pytest.fixture
def interpreter_is_held() -> Iterator[None]:
    """Nobody gets the interpreter who is not let in."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(10 * PATIENCE_S)
    yield
    sys.setswitchinterval(before)


def test_where_nobody_waits_it_only_yields(yields: Yields) -> None:
    for yields.takes_ns in (SHORT_NS, SHORT_NS + 100, SHORT_NS - 100, 2 * SHORT_NS - 200):
        yields.pause()

    assert yields.slept == []


def test_a_yield_that_took_longer_woke_somebody_who_is_let_in(yields: Yields) -> None:
    yields.pause()
    yields.takes_ns = 10 * SHORT_NS
    yields.pause()
    yields.takes_ns = SHORT_NS
    yields.pause()

    assert yields.slept == [SLEEP_S]


def test_where_somebody_has_run_meanwhile_nobody_need_be_let_in(yields: Yields) -> None:
    for yields.takes_ns in (SHORT_NS, 5_000_000, SHORT_NS, 5_000_000):
        yields.pause()

    assert yields.slept == []


def test_a_processor_that_has_become_slower_is_soon_the_usual(yields: Yields) -> None:
    for yields.takes_ns in [SHORT_NS] * 10 + [4 * SHORT_NS] * 2_000:
        yields.pause()
    slept = len(yields.slept)
    yields.pause()

    assert 0 < slept < 1_000
    assert len(yields.slept) == slept


def test_a_clock_that_stands_still_is_no_reason_to_sleep(yields: Yields) -> None:
    yields.takes_ns = 0
    yields.pause()
    yields.pause()

    assert yields.slept == []


def test_where_nothing_yields_each_pause_is_a_sleep() -> None:
    slept: list[float] = []
    pause = GilYield(None, slept.append)
    pause()
    pause()

    assert slept == [SLEEP_S, SLEEP_S]


@pytest.mark.usefixtures("interpreter_is_held")
@pytest.mark.parametrize("can_yield", [True, False])
def test_a_thread_that_pauses_now_and_then_lets_others_in(*, can_yield: bool) -> None:
    pause = GilYield(yielding() if can_yield else None)
    let_in = False

    def work() -> None:
        while not let_in:
            sum(range(100))
            pause()

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    let_in = True
    worker.join(PATIENCE_S)

    assert not worker.is_alive()


def test_here_something_yields() -> None:
    assert yielding() is not None
