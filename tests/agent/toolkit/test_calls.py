"""Replacements that only look at calls: what the program passes and gets is its own."""

import asyncio
import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.trace import get_current_span

from latencytrace.agent.timing.hook import Arguments, Patch
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import (
    MOST_OF_A_SPAN,
    after,
    before,
    first_of_each_span,
    outside_requests,
)
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, in_request, interval_stages
from tests.support.agent.waiting_requests import served


def add(first: int, second: int = 2) -> int:
    """Add two numbers."""
    return first + second


async def add_later(first: int, second: int = 2) -> int:
    return first + second


def recorder_of(faults: list[str]) -> Recorder:
    return Recorder(
        Spans().recorder.tracer, lambda doing, fault: faults.append(f"{doing}: {fault}")
    )


def test_a_call_is_noted_before_it_begins_with_its_defaults() -> None:
    seen: list[dict[str, object]] = []

    def note(_: Recorder, arguments: Arguments) -> None:
        seen.append(dict(arguments))

    noted = before("noting", note)(Spans().recorder, add)

    assert (noted(1), noted(1, second=5)) == (3, 6)
    assert seen == [{"first": 1, "second": 2}, {"first": 1, "second": 5}]
    assert (noted.__doc__, inspect.signature(noted)) == (add.__doc__, inspect.signature(add))


def test_a_call_is_noted_with_what_it_returned_sync_or_async() -> None:
    seen: list[tuple[object, object]] = []

    def note(_: Recorder, arguments: Arguments, result: object) -> None:
        seen.append((arguments["first"], result))

    recorder = Spans().recorder
    sync, later = after("noting", note)(recorder, add), after("noting", note)(recorder, add_later)

    assert (sync(1), asyncio.run(later(3))) == (3, 5)
    assert seen == [(1, 3), (3, 5)]
    assert inspect.iscoroutinefunction(later)


@pytest.mark.parametrize("build", [before, after])
def test_a_fault_of_ours_changes_nothing_and_is_reported(build: Any) -> None:
    def note(*_: object) -> None:
        raise ValueError("ours")

    faults: list[str] = []
    noted = build("noting", note)(recorder_of(faults), add)

    assert noted(1) == 3
    assert faults == ["noting: ours"]


def test_what_the_call_raises_passes_through_and_is_not_noted_as_returned() -> None:
    seen: list[object] = []
    noted = after("noting", lambda *said: seen.append(said))(Spans().recorder, add)

    with pytest.raises(TypeError):
        noted("a", 1)

    assert seen == []


def test_a_call_of_which_we_cannot_tell_whether_it_is_meant_is_not_timed() -> None:
    spans, faults = Spans(), list[str]()
    recorder = Recorder(
        spans.recorder.tracer, lambda doing, fault: faults.append(f"{doing}: {fault}")
    )

    def when(*_: object) -> bool:
        raise ValueError("ours")

    patch = Patch("somewhere", "add", Stage.PREPROCESS, within=True)
    timed = first_of_each_span(patch, when=when).build(recorder, add)

    in_request(spans, lambda: timed(1))

    assert spans.names == ["request"]
    assert faults == ["counting calls: ours"]


@pytest.mark.parametrize(
    ("around", "calls", "folded"),
    [(None, MOST_OF_A_SPAN, {"preprocess"}), (Stage.PREPROCESS, 0, set())],
)
def test_of_very_many_calls_within_a_span_the_first_are_spans_and_the_others_its_time(
    around: Stage | None, calls: int, folded: set[str]
) -> None:
    spans = Spans()
    patch = Patch("somewhere", "add", Stage.PREPROCESS, name="add", within=True)
    timed = first_of_each_span(patch).build(spans.recorder, add)
    timing = spans.recorder.start("around", around)

    with served(spans):
        timing.activate()
        assert {timed(1) for _ in range(MOST_OF_A_SPAN + 9)} == {3}
        timing.deactivate()

    assert spans.names.count("add") == calls
    assert interval_stages(spans.all[-1]) == folded


def test_what_serves_all_requests_is_part_of_none() -> None:
    spans, found = Spans(), SimpleNamespace(valid=True)

    def work() -> None:
        found.valid = get_current_span().get_span_context().is_valid

    in_request(spans, outside_requests(spans.recorder, work))

    assert not found.valid
