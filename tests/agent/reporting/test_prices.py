"""Prices of what hooks do, measured through the real ones."""

from latencytrace.agent.hooks.asgi import AsgiHook
from latencytrace.agent.hooks.tokenizers import TokenizersHook
from latencytrace.agent.reporting.prices import Prices, measured_prices, times_requests
from latencytrace.agent.start import agent_status
from tests.support.agent.receiving import TracedProgram
from tests.support.waiting import again


def test_a_request_and_a_call_have_a_price() -> None:
    def attempt() -> None:
        prices = measured_prices(times_requests([TokenizersHook, AsgiHook]))
        assert prices.call_ns > 0
        assert (
            prices.request_ns > 0
        )  # unless garbage was collected while an untimed one was priced

    again(attempt)


def test_without_a_hook_for_requests_calls_have_a_price() -> None:
    prices = measured_prices(times_requests([TokenizersHook]))

    assert prices == Prices(call_ns=prices.call_ns, request_ns=prices.call_ns)


def test_to_measure_them_leaves_no_span_and_counts_as_no_request(agent: TracedProgram) -> None:
    measured_prices(times_requests([AsgiHook]))

    assert agent.spans() == []
    assert agent_status().overhead.requests == 0
