"""The span as OpenTelemetry's interface, beyond what the encoder's tests compare."""

import asyncio
import gc
import logging
import weakref
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest
from opentelemetry.trace import INVALID_SPAN, StatusCode, Tracer, get_current_span

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.spans import span as recorded_span
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.spans.span import RecordedSpan
from tests.support.agent.hooked import Spans


@pytest.fixture
def tracer(spans: Spans) -> Tracer:
    return spans.provider.get_tracer("scope")


def test_a_span_is_current_inside_its_block_only(spans: Spans, tracer: Tracer) -> None:
    with tracer.start_as_current_span("name") as span:
        assert get_current_span() is span
        assert span.is_recording()

    assert get_current_span() is INVALID_SPAN
    assert spans.all == [span]


@pytest.mark.parametrize("by", ["its end", "its block"])
def test_a_span_that_two_threads_end_at_the_same_time_ends_once(
    spans: Spans, tracer: Tracer, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    others = [tracer.start_as_current_span("name")]
    span: Any = others[0]

    def while_the_clock_is_read() -> int:
        if others:
            others.pop()
            span.end()
        return monotonic_ns()

    if by == "its end":
        monkeypatch.setattr(recorded_span, "monotonic_ns", while_the_clock_is_read)
        span.end()
    else:
        with span:
            monkeypatch.setattr(recorded_span, "monotonic_ns", while_the_clock_is_read)

    assert spans.all == [span]


def test_an_event_or_a_link_changes_nothing_in_how_a_span_is_referred_to(tracer: Tracer) -> None:
    plain, detailed = tracer.start_span("plain"), tracer.start_span("detailed")
    detailed.add_event("event")
    detailed.add_link(plain.get_span_context())

    flags = plain.get_span_context().trace_flags
    assert flags.random_trace_id
    assert detailed.get_span_context().trace_flags == flags


@pytest.mark.parametrize("value", [True, False])
def test_a_numpy_boolean_is_a_boolean(spans: Spans, tracer: Tracer, value: bool) -> None:
    numpy_value: Any = np.bool_(value)

    tracer.start_span("name", attributes={"a": numpy_value}).end()

    assert spans.only.attributes["a"] is value


def test_an_attribute_that_is_set_to_none_is_taken_back(spans: Spans, tracer: Tracer) -> None:
    span = tracer.start_span("name", attributes={"a": 1, "b": 2, "c": 3})
    none: Any = None

    span.set_attribute("a", none)
    span.set_attributes({"b": none, "d": 4})
    span.end()

    assert dict(spans.only.attributes) == {"c": 3, "d": 4}


def test_a_span_that_was_not_made_current_is_not_made_so_by_its_block(
    spans: Spans, tracer: Tracer
) -> None:
    with tracer.start_span("name"):
        assert get_current_span() is INVALID_SPAN

    assert len(spans.all) == 1


@pytest.mark.parametrize("error", [GeneratorExit, KeyboardInterrupt, asyncio.CancelledError])
def test_what_is_no_exception_is_no_error_of_the_span(
    spans: Spans, tracer: Tracer, error: type[BaseException]
) -> None:
    with pytest.raises(error), tracer.start_as_current_span("name"):
        raise error

    assert spans.only.status.status_code is StatusCode.UNSET
    assert spans.only.details is None


def test_a_decorated_coroutine_function_is_a_span_each_time_it_is_awaited(
    spans: Spans, tracer: Tracer
) -> None:
    @tracer.start_as_current_span("name")
    async def program(number: int) -> int:
        await asyncio.sleep(0)
        return number

    assert asyncio.run(program(1)) == 1

    assert len(spans.all) == 1


def test_a_block_around_the_yield_of_a_dropped_generator_ends_without_a_complaint(
    spans: Spans, tracer: Tracer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    def stream() -> Generator[int, None, None]:
        with tracer.start_as_current_span("name"):
            yield 1

    def in_a_context_of_its_own(call: Callable[[], object]) -> None:
        async def main() -> None:
            call()

        asyncio.run(main())

    tokens = stream()
    in_a_context_of_its_own(lambda: next(tokens))
    in_a_context_of_its_own(tokens.close)

    assert len(spans.all) == 1
    assert [record for record in caplog.records if "context" in record.message] == []


def test_a_value_of_the_program_is_kept_alive_by_no_span(tracer: Tracer) -> None:
    class Tensor:
        """Large."""

    tensor: Any = Tensor()
    gone = weakref.ref(tensor)
    span = tracer.start_span("name", attributes={"tensor": tensor, "list": [tensor]})

    del tensor
    gc.collect()

    assert isinstance(span, RecordedSpan)
    assert gone() is None
    assert dict(span.attributes) == {"list": ()}


def test_a_list_changed_later_changes_no_attribute(tracer: Tracer) -> None:
    values = [1, 2]
    span = tracer.start_span("name", attributes={"values": values})

    values.append(3)

    assert isinstance(span, RecordedSpan)
    assert span.attributes["values"] == (1, 2)


def test_of_a_deep_stack_trace_the_innermost_frames_are_kept(spans: Spans, tracer: Tracer) -> None:
    def even(depth: int) -> None:
        if not depth:
            raise ValueError("at the bottom")
        odd(depth - 1)

    def odd(depth: int) -> None:
        even(depth - 1)

    with pytest.raises(ValueError, match="bottom"), tracer.start_as_current_span("name"):
        even(600)

    noted = spans.only.events[0].attributes
    assert noted is not None
    frames = str(noted["exception.stacktrace"]).count("  File ")
    assert frames == 200
    assert "at the bottom" in str(noted["exception.stacktrace"])


def test_an_event_without_a_time_happens_when_it_is_noted(spans: Spans, tracer: Tracer) -> None:
    with tracer.start_as_current_span("request") as span:
        span.add_event("cache missed")

    (event,) = spans.only.events
    assert spans.only.start_time <= event.timestamp <= (spans.only.end_time or 0)


def test_a_span_that_was_sent_is_freed_without_the_collector() -> None:
    tracer = RecordingProvider().get_tracer("scope")
    gc.disable()
    try:
        with tracer.start_as_current_span("name", attributes={"a": (1, 2)}) as span:
            span.add_event("event")
        gone = weakref.ref(span)
        del span

        assert gone() is None
    finally:
        gc.enable()
