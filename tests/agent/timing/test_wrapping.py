"""Timed functions of all four kinds: what they do to the program, and what they record."""

import asyncio
import contextvars
import gc
import inspect
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.trace import INVALID_SPAN, Span, get_current_span

from latencytrace.agent.guard import FaultCounter
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.hook import Arguments, HookAttributes, Patch
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import beginning, named_arguments, timed
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, interval_stages

Timing = Callable[..., Any]


def patched(spans: Spans, function: Timing, **options: Any) -> Timing:
    """A function timed as stage `retrieve`, as a hook's patch would."""
    patch = Patch("library", "Client.search", Stage.RETRIEVE, **options)
    return timed(function, beginning(function, patch, spans.recorder))


def search(number: int, *, limit: int = 3) -> int:
    """The docstring."""
    return number + limit


async def search_async(number: int) -> int:
    await asyncio.sleep(0)
    return number


def results(count: int) -> Generator[int, str, str]:
    said = "nothing"
    for number in range(count):
        said = yield number
    return said


async def results_async(count: int) -> AsyncIterator[int]:
    for number in range(count):
        await asyncio.sleep(0)
        yield number


# --- functions


def test_a_call_returns_its_result_and_is_one_span(spans: Spans) -> None:
    assert patched(spans, search)(4, limit=5) == 9

    assert (spans.only.name, spans.stages) == ("search", [Stage.RETRIEVE])
    assert not spans.only.is_recording()


def test_what_a_call_raises_is_the_very_same_error(spans: Spans) -> None:
    raised = LookupError("a secret")

    def broken() -> None:
        raise raised

    with pytest.raises(LookupError) as caught:
        patched(spans, broken)()

    assert caught.value is raised
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.ERROR_TYPE: "LookupError",
    }


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_error_that_is_no_exception_ends_the_span_too(
    spans: Spans, error: type[BaseException]
) -> None:
    def left() -> None:
        raise error

    with pytest.raises(error):
        patched(spans, left)()

    assert spans.only.attributes[semconv.ERROR_TYPE] == error.__name__


def test_a_call_is_current_while_it_runs_and_not_after(spans: Spans) -> None:
    inside: list[Span] = []

    patched(spans, lambda: inside.append(get_current_span()))()

    assert inside == [spans.only]
    assert get_current_span() is INVALID_SPAN


def test_a_call_inside_another_of_its_stage_is_not_timed_again(spans: Spans) -> None:
    inner = patched(spans, search)
    outer = patched(spans, lambda: inner(1))

    assert outer() == 4

    assert len(spans.all) == 1


def test_a_call_that_outlives_the_one_of_its_stage_is_timed(spans: Spans) -> None:
    inner = patched(spans, search_async)
    tasks: list[asyncio.Task[int]] = []

    async def outer() -> None:
        tasks.append(asyncio.create_task(inner(1)))

    async def main() -> None:
        await patched(spans, outer)()
        await tasks[0]

    asyncio.run(main())

    assert len(spans.all) == 2


def test_a_wrong_call_raises_what_it_raises_untimed(spans: Spans) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"):
        patched(spans, search)(1, wrong=2)


def test_the_arguments_are_described_before_and_the_result_after(spans: Spans) -> None:
    def describe(arguments: Arguments) -> HookAttributes:
        return {"number": str(arguments["number"]), "limit": str(arguments["limit"])}

    patched(spans, search, describe=describe, describe_result=lambda n: {"result": n})(7)

    noted = spans.only.attributes
    assert (noted["number"], noted["limit"], noted["result"]) == ("7", "3", 10)


def describe_badly(_: object) -> HookAttributes:
    raise LookupError


@pytest.mark.parametrize(
    "patch",
    [
        Patch("library", "search", Stage.RETRIEVE, describe=describe_badly),
        Patch("library", "search", Stage.RETRIEVE, describe_result=describe_badly),
    ],
    ids=["of the arguments", "of the result"],
)
def test_a_description_that_raises_does_not_reach_the_program(patch: Patch) -> None:
    faults: list[str] = []
    recorder = Recorder(Spans().recorder.tracer, lambda doing, _: faults.append(doing))

    assert timed(search, beginning(search, patch, recorder))(1) == 4

    assert len(faults) == 1


def test_a_queue_that_raises_does_not_reach_the_program(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = spans.recorder.tracer
    taken: list[RecordedSpan] = []

    def take(span: RecordedSpan) -> None:
        taken.append(span)
        raise ValueError

    monkeypatch.setattr(tracer, "on_end", take)
    faults: list[str] = []
    monkeypatch.setattr(FaultCounter, "__call__", lambda _, doing, __: faults.append(doing))

    assert patched(spans, search)(4) == 7
    assert len(taken) == 1
    assert faults == ["ending a span"]


def test_the_wrapper_looks_like_what_it_wraps(spans: Spans) -> None:
    wrapper = patched(spans, search)

    assert (wrapper.__name__, wrapper.__doc__) == ("search", "The docstring.")
    assert inspect.signature(wrapper) == inspect.signature(search)


@pytest.mark.parametrize("function", [search, search_async, results, results_async])
def test_the_wrapper_is_of_the_kind_of_what_it_wraps(spans: Spans, function: Timing) -> None:
    wrapper = patched(spans, function)

    assert kinds(wrapper) == kinds(function)


def kinds(function: Timing) -> tuple[bool, bool, bool]:
    return (
        inspect.iscoroutinefunction(function),
        inspect.isgeneratorfunction(function),
        inspect.isasyncgenfunction(function),
    )


def test_arguments_are_named_whichever_way_they_came() -> None:
    def function(first: int, second: int = 2, *rest: int, third: int = 3, **more: int) -> None:
        """Only its signature counts."""

    assert named_arguments(function)((1,), {"third": 4, "fourth": 5}) == {
        "first": 1,
        "second": 2,
        "third": 4,
        "fourth": 5,
    }
    assert named_arguments(function)((1, 5, 6), {}) == {"first": 1, "second": 5, "third": 3}


def test_a_function_in_c_without_a_signature_is_timed_too(spans: Spans) -> None:
    assert patched(spans, max)(1, 2) == 2

    assert len(spans.all) == 1


# --- coroutines


def test_a_coroutine_is_one_span_from_its_first_step_to_its_last(spans: Spans) -> None:
    assert asyncio.run(patched(spans, search_async)(4)) == 4

    assert spans.only.name == "search"


def test_a_cancelled_coroutine_ends_its_span_as_cancelled(spans: Spans) -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(patched(spans, endless)())
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())

    assert spans.only.attributes[semconv.CANCELLED] is True
    assert semconv.ERROR_TYPE not in spans.only.attributes


def test_coroutines_side_by_side_keep_their_own_context(spans: Spans) -> None:
    own: list[Span] = []

    async def step() -> None:
        before = get_current_span()
        await asyncio.sleep(0)
        assert get_current_span() is before
        own.append(before)

    async def main() -> None:
        await asyncio.gather(*(patched(spans, step)() for _ in range(3)))

    asyncio.run(main())

    assert len(set(own)) == 3
    assert set(own) == set(spans.all)


def test_a_coroutine_that_is_never_awaited_leaves_no_span(spans: Spans) -> None:
    coroutine = patched(spans, search_async)(1)

    coroutine.close()

    assert spans.all == []


# --- generators


def test_a_generator_gives_what_it_gave_and_is_one_span(spans: Spans) -> None:
    assert list(patched(spans, results)(3)) == [0, 1, 2]

    assert len(spans.all) == 1
    assert semconv.CANCELLED not in spans.only.attributes


def test_a_generator_takes_what_is_sent_and_returns_its_value(spans: Spans) -> None:
    generator = patched(spans, results)(1)

    next(generator)
    with pytest.raises(StopIteration) as stopped:
        generator.send("something")

    assert stopped.value.value == "something"
    assert len(spans.all) == 1


def test_a_generator_handles_what_is_thrown_into_it(spans: Spans) -> None:
    def patient() -> Iterator[str]:
        try:
            yield "first"
        except LookupError as error:
            yield str(error)

    generator = patched(spans, patient)()

    next(generator)
    answer = generator.throw(LookupError("thrown"))

    assert answer == "thrown"
    assert spans.all == []
    generator.close()
    assert len(spans.all) == 1


def test_what_a_generator_raises_is_the_very_same_error(spans: Spans) -> None:
    raised = LookupError("a secret")

    def broken() -> Iterator[int]:
        yield 1
        raise raised

    with pytest.raises(LookupError) as caught:
        list(patched(spans, broken)())

    assert caught.value is raised
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"


@pytest.mark.parametrize("leave", ["closed", "dropped"])
def test_a_generator_left_half_way_cleans_up_and_ends_its_span(spans: Spans, leave: str) -> None:
    cleaned: list[bool] = []

    def careful() -> Iterator[int]:
        try:
            yield 1
        finally:
            cleaned.append(True)

    generator = patched(spans, careful)()
    next(generator)
    if leave == "closed":
        generator.close()
    del generator

    assert cleaned == [True]
    assert spans.only.attributes[semconv.CANCELLED] is True


def test_a_generator_that_never_started_leaves_no_span(spans: Spans) -> None:
    generator = patched(spans, results)(3)

    del generator

    assert spans.all == []


def test_no_context_is_held_across_a_yield(spans: Spans) -> None:
    inside: list[Span] = []

    def watching() -> Iterator[Span]:
        for _ in range(2):
            inside.append(get_current_span())
            yield get_current_span()

    outside = [get_current_span() for _ in patched(spans, watching)()]

    assert inside == [spans.only, spans.only]
    assert outside == [INVALID_SPAN, INVALID_SPAN]


def test_a_generator_that_goes_on_in_other_contexts_is_current_in_each(spans: Spans) -> None:
    def watching() -> Iterator[Span]:
        while True:
            yield get_current_span()

    generator = patched(spans, watching)()

    seen = [contextvars.Context().run(next, generator) for _ in range(3)]

    generator.close()
    assert seen == [spans.only] * 3


# --- async generators


async def collected(stream: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in stream]


def test_an_async_generator_gives_what_it_gave_and_is_one_span(spans: Spans) -> None:
    assert asyncio.run(collected(patched(spans, results_async)(3))) == [0, 1, 2]

    assert len(spans.all) == 1
    assert semconv.CANCELLED not in spans.only.attributes


def test_what_an_async_generator_raises_is_the_very_same_error(spans: Spans) -> None:
    raised = LookupError("a secret")

    async def broken() -> AsyncIterator[int]:
        yield 1
        raise raised

    with pytest.raises(LookupError) as caught:
        asyncio.run(collected(patched(spans, broken)()))

    assert caught.value is raised
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"


def test_an_async_generator_takes_what_is_sent_and_thrown(spans: Spans) -> None:
    async def echo() -> AsyncIterator[str]:
        said: str | None = "nothing"
        while True:
            try:
                said = yield str(said)
            except LookupError as error:
                said = f"caught {error}"

    async def main() -> list[str]:
        stream = patched(spans, echo)()
        heard = [await anext(stream), await stream.asend("hello")]
        heard.append(await stream.athrow(LookupError("this")))
        await stream.aclose()
        return heard

    assert asyncio.run(main()) == ["nothing", "hello", "caught this"]
    assert len(spans.all) == 1


def test_a_cancelled_async_generator_ends_its_span_as_cancelled(spans: Spans) -> None:
    async def endless() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(collected(patched(spans, endless)()))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())

    assert spans.only.attributes[semconv.CANCELLED] is True


@pytest.mark.parametrize("leave", ["closed", "dropped"])
def test_an_async_generator_left_half_way_cleans_up_and_ends_its_span(
    spans: Spans, leave: str
) -> None:
    cleaned: list[bool] = []

    async def careful() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            cleaned.append(True)

    async def main() -> None:
        stream = patched(spans, careful)()
        await anext(stream)
        if leave == "closed":
            await stream.aclose()
        del stream
        gc.collect()
        for _ in range(3):  # the event loop closes what was dropped
            await asyncio.sleep(0)
        assert cleaned == [True]
        assert len(spans.all) == 1

    asyncio.run(main())

    assert spans.only.attributes[semconv.CANCELLED] is True


def test_no_context_is_held_across_an_async_yield(spans: Spans) -> None:
    async def watching() -> AsyncIterator[Span]:
        for _ in range(2):
            await asyncio.sleep(0)
            yield get_current_span()

    async def main() -> tuple[list[Span], list[Span]]:
        inside, outside = [], []
        async for span in patched(spans, watching)():
            inside.append(span)
            outside.append(get_current_span())
        return inside, outside

    inside, outside = asyncio.run(main())

    assert inside == [spans.only] * 2
    assert outside == [INVALID_SPAN] * 2


def test_an_async_generator_dropped_in_another_task_complains_to_nobody(
    spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        stream = patched(spans, results_async)(3)
        await asyncio.create_task(one_of(stream))
        await asyncio.create_task(one_of(stream))
        await asyncio.create_task(stream.aclose())

    async def one_of(stream: AsyncIterator[int]) -> int:
        return await anext(stream)

    asyncio.run(main())

    assert caplog.records == []
    assert len(spans.all) == 1


# --- interleaved calls


def test_inside_a_stream_an_interleaved_call_is_an_interval(spans: Spans) -> None:
    decode = patched(spans, search, interleaved=True)
    stream = spans.recorder.start("stream")
    stream.collect_intervals()

    stream.activate()
    decode(1)
    decode(2)
    stream.deactivate()
    stream.end()

    assert spans.names == ["stream"]
    assert interval_stages(spans.only) == {Stage.RETRIEVE}


def test_outside_a_stream_an_interleaved_call_is_a_span(spans: Spans) -> None:
    patched(spans, search, interleaved=True)(1)

    assert spans.names == ["search"]


def test_an_interleaved_call_inside_another_is_not_noted_twice(spans: Spans) -> None:
    inner = patched(spans, search, interleaved=True)
    outer = patched(spans, lambda: inner(1), interleaved=True)
    stream = spans.recorder.start("stream")
    stream.collect_intervals()

    stream.activate()
    outer()
    stream.deactivate()
    stream.end()

    packed = spans.only.attributes[semconv.INTERVALS]
    assert isinstance(packed, str)
    assert packed.count("+") == 1


def test_nothing_is_timed_where_somebody_suppresses_it(spans: Spans) -> None:
    with suppress_instrumentation():
        patched(spans, search)(1)

    assert spans.all == []


def test_the_spans_are_ours(spans: Spans) -> None:
    patched(spans, search)(1)

    assert type(spans.only) is RecordedSpan
