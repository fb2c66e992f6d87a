"""Prices of what hooks do, measured through the real ones."""

from itertools import count

import pytest

from latencytrace.agent.hooks.asgi import AsgiHook
from latencytrace.agent.hooks.tokenizers import TokenizersHook
from latencytrace.agent.reporting import prices as pricing
from latencytrace.agent.reporting.prices import Prices, measured_prices, times_requests
from latencytrace.agent.start import agent_status
from tests.support.agent.receiving import TracedProgram


def test_a_request_and_a_call_have_a_price() -> None:
    prices = measured_prices(times_requests([TokenizersHook, AsgiHook]))

    assert prices.call_ns > 0
    assert prices.request_ns > 0


def test_a_collection_of_garbage_is_no_part_of_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = count()
    spent_ns = 0

    def cpu_ns() -> int:
        nonlocal spent_ns
        spent_ns += 150_000_000 if next(reads) % 32 == 7 else 1_000  # of 16 stretches one
        return spent_ns

    monkeypatch.setattr(pricing, "cpu_ns", cpu_ns)

    assert measured_prices(None).call_ns == 500


def test_without_a_hook_for_requests_calls_have_a_price() -> None:
    prices = measured_prices(times_requests([TokenizersHook]))

    assert prices == Prices(call_ns=prices.call_ns, request_ns=prices.call_ns)


def test_to_measure_them_leaves_no_span_and_counts_as_no_request(agent: TracedProgram) -> None:
    measured_prices(times_requests([AsgiHook]))

    assert agent.spans() == []
    assert agent_status().overhead.requests == 0
