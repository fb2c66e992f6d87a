"""Prices of what hooks do, measured through the real ones."""

from itertools import count

import pytest

from latencytrace.agent.hooks.asgi import AsgiHook
from latencytrace.agent.hooks.event_loop import EventLoopHook
from latencytrace.agent.hooks.tokenizers import TokenizersHook
from latencytrace.agent.reporting import prices as pricing
from latencytrace.agent.reporting.prices import Prices, measured_prices
from latencytrace.agent.start import agent_status
from latencytrace.agent.timing.hook import Hook
from tests.support.agent.receiving import TracedProgram


def measured(*hooks: type[Hook]) -> Prices:
    prices = measured_prices(lambda: hooks)
    assert prices is not None
    return prices


def test_a_request_and_a_call_have_a_price() -> None:
    prices = measured(TokenizersHook, AsgiHook, EventLoopHook)

    assert prices.call_ns > 0
    assert prices.request_ns > 0
    assert prices.sections_ns > 0


def test_a_collection_of_garbage_is_no_part_of_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = count()
    spent_ns = 0

    def cpu_ns() -> int:
        nonlocal spent_ns
        spent_ns += 150_000_000 if next(reads) % 32 == 7 else 1_000  # of 16 stretches one
        return spent_ns

    monkeypatch.setattr(pricing, "cpu_ns", cpu_ns)

    assert measured().call_ns == 500


def test_without_a_hook_for_requests_calls_have_a_price() -> None:
    prices = measured(TokenizersHook)

    assert prices.request_ns == prices.call_ns > 0
    assert prices.sections_ns == prices.chunk_ns == prices.callback_ns == 0


def test_to_measure_them_leaves_no_span_and_counts_as_no_request(agent: TracedProgram) -> None:
    measured(AsgiHook)

    assert agent.spans() == []
    assert agent_status().overhead.requests == 0


@pytest.mark.parametrize("rests", [0, 1, 40, 100])
def test_to_measure_them_is_given_up_once_somebody_waits(rests: int) -> None:
    asked = count()

    def is_hurried() -> bool:
        return next(asked) == rests

    assert measured_prices(lambda: [AsgiHook, EventLoopHook], is_hurried) is None
    assert next(asked) == rests + 1
