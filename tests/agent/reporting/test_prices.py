"""Prices of what hooks do, measured through the real ones."""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import pytest
import uvicorn.protocols.http.h11_impl
import uvicorn.protocols.http.httptools_impl  # noqa: F401 - whose functions are patched

from latencytrace.agent.hooks.asgi import AsgiHook
from latencytrace.agent.hooks.event_loop import EventLoopHook
from latencytrace.agent.hooks.tokenizers import TokenizersHook
from latencytrace.agent.hooks.uvicorn import UvicornHook
from latencytrace.agent.reporting import prices as pricing
from latencytrace.agent.reporting.prices import Prices, measured_prices
from latencytrace.agent.start import agent_status
from latencytrace.agent.timing.costs import RequestCost
from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.timing.recorder import Recorder
from tests.support.agent.hooked import hooked
from tests.support.agent.receiving import TracedProgram
from tests.support.servers.serving import get, serving


def _seeing(scopes: list[Mapping[str, Any]]) -> Callable[..., Any]:
    """Build what notes the scopes of requests."""

    def build(_: Recorder, original: Callable[..., Any]) -> Callable[..., Any]:
        RequestCost()

        def call(self: object, scope: Mapping[str, Any], *args: Any) -> Any:
            scopes.append(dict(scope))
            return original(self, scope, *args)

        return call

    return build


def measured(*hooks: type[Hook]) -> Prices:
    prices = measured_prices(lambda: hooks)
    assert prices is not None
    return prices


def test_a_request_and_a_call_have_a_price() -> None:
    prices = measured(TokenizersHook, AsgiHook, EventLoopHook)

    assert prices.call_ns > 0
    assert prices.request_ns > 0
    assert prices.sections_ns > 0


def test_the_request_that_is_priced_has_all_that_a_server_gives_one() -> None:
    given: list[Mapping[str, Any]] = []

    async def application(scope: Any, _receive: Any, send: Any) -> None:
        given.append(dict(scope))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with hooked(UvicornHook), serving(application, lifespan="off") as url:
        get(url)
    priced: list[Mapping[str, Any]] = []

    class ServerHook(Hook):
        patches = (Replacement("starlette.applications", pricing.TIMES_REQUESTS, _seeing(priced)),)

    measured(ServerHook)

    assert {key for key, value in given[-1].items() if value} <= set(priced[-1]) | {"asgi"}
    assert len(priced[-1]["headers"]) >= len(given[-1]["headers"])


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
