"""The hook of `tenacity`: waits before another attempt, sync and async."""

import asyncio

import tenacity

from latencytrace.agent.hooks.tenacity import TenacityHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, in_request

HOOKS = (TenacityHook,)
WAIT_S = 0.02


def expect_waits(spans: Spans) -> None:
    waits = spans.of(Stage.RETRY)
    request = spans.all[-1]
    assert [(wait.name, wait.parent_id) for wait in waits] == [("back_off", request.span_id)] * 2
    assert {wait.ended_ns - wait.started_ns for wait in waits} == {int(WAIT_S * 1e9)}
    assert waits[-1].ended_ns <= request.ended_ns


def test_the_waits_between_three_attempts_are_two_retries(spans: Spans) -> None:
    outcomes = [LookupError(), LookupError(), None]

    @tenacity.retry(wait=tenacity.wait_fixed(WAIT_S))
    def attempt() -> str:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return "done"

    in_request(spans, attempt)

    assert outcomes == []
    expect_waits(spans)


def test_attempts_that_are_awaited_are_the_same(spans: Spans) -> None:
    outcomes = [LookupError(), LookupError(), None]

    @tenacity.retry(wait=tenacity.wait_fixed(WAIT_S))
    async def attempt() -> str:
        await asyncio.sleep(0)
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return "done"

    in_request(spans, lambda: asyncio.run(attempt()))

    assert outcomes == []
    expect_waits(spans)


def test_outside_of_any_request_nothing_is_noted(spans: Spans) -> None:
    outcomes = [LookupError(), None]
    for attempt in tenacity.Retrying(wait=tenacity.wait_fixed(0.001)):
        with attempt:
            outcome = outcomes.pop(0)
            if outcome is not None:
                raise outcome

    assert spans.all == []
