"""`latencytrace.stage`: blocks and functions that the user names himself."""

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
from opentelemetry.trace import INVALID_SPAN, StatusCode, get_current_span

import latencytrace
from latencytrace.agent.api.stages import UserStage
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans
from tests.support.waiting import PATIENCE_S


def stage(spans: Spans, name: str, **attributes: str | int) -> UserStage:
    return UserStage(lambda: spans.recorder, name, dict(attributes))


def test_a_block_of_a_known_stage_is_of_that_stage(spans: Spans) -> None:
    with stage(spans, "rerank", candidates=7):
        pass

    assert spans.only.name == "rerank"
    assert dict(spans.only.attributes) == {semconv.STAGE: Stage.RERANK, "candidates": 7}


@pytest.mark.parametrize("name", ["pricing", "unattributed", ""])
def test_any_other_name_is_a_stage_of_the_application(spans: Spans, name: str) -> None:
    with stage(spans, name):
        pass

    assert spans.only.attributes[semconv.STAGE] == Stage.APPLICATION
    assert spans.only.attributes[semconv.STAGE_NAME] == name


@pytest.mark.parametrize(
    ("name", "stage_value"),
    [("tokenizer.decode", Stage.DETOKENIZE), ("tokenizer.encode", Stage.TOKENIZE)],
)
def test_a_tokenizers_work_is_of_its_stage(spans: Spans, name: str, stage_value: Stage) -> None:
    with stage(spans, name):
        pass

    assert (spans.only.name, dict(spans.only.attributes)) == (name, {semconv.STAGE: stage_value})


def test_an_attribute_of_the_name_that_ours_has_does_not_change_the_stage(spans: Spans) -> None:
    with stage(spans, "rerank", **{semconv.STAGE: "decode"}):
        pass

    assert dict(spans.only.attributes) == {semconv.STAGE: Stage.RERANK}


def test_what_a_block_raises_passes_through(spans: Spans) -> None:
    raised = LookupError("a secret")

    with pytest.raises(LookupError) as caught, stage(spans, "rerank"):
        raise raised

    assert caught.value is raised
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert spans.only.status.status_code is StatusCode.ERROR
    assert "secret" not in repr(spans.only.attributes)


def test_stages_inside_each_other_are_children(spans: Spans) -> None:
    with stage(spans, "retrieve"), stage(spans, "rerank"):
        pass

    inner, outer = spans.all
    assert (inner.name, outer.name) == ("rerank", "retrieve")
    assert inner.parent_id == outer.span_id
    assert get_current_span() is INVALID_SPAN


def test_one_object_may_be_entered_again_meanwhile(spans: Spans) -> None:
    same = stage(spans, "rerank")

    with same, same:
        pass

    inner, outer = spans.all
    assert inner.parent_id == outer.span_id
    assert outer.parent_id == 0


def test_a_block_may_be_entered_with_async_with(spans: Spans) -> None:
    raised = LookupError("a secret")

    async def main() -> None:
        async with stage(spans, "rerank") as entered:
            await asyncio.sleep(0)
            assert isinstance(entered, UserStage)
            async with stage(spans, "rank_rules"):
                raise raised

    with pytest.raises(LookupError) as caught:
        asyncio.run(main())

    assert caught.value is raised
    inner, outer = spans.all
    assert (inner.name, inner.parent_id) == ("rank_rules", outer.span_id)
    assert inner.status.status_code is outer.status.status_code is StatusCode.ERROR
    assert get_current_span() is INVALID_SPAN


def test_tasks_that_share_one_object_keep_their_spans_apart(
    spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    same = stage(spans, "rerank")
    own: dict[int, object] = {}

    async def rerank(number: int, others: asyncio.Barrier) -> None:
        with same:
            await others.wait()
            own[number] = get_current_span()
            for _ in range(number):  # they leave in the order in which they came
                await asyncio.sleep(0)
        own[number] = (own[number], get_current_span())

    async def main() -> None:
        others = asyncio.Barrier(3)
        await asyncio.gather(*(rerank(number, others) for number in range(3)))

    asyncio.run(main())

    assert [own[number] for number in range(3)] == [(span, INVALID_SPAN) for span in spans.all]
    assert caplog.records == []


def test_threads_that_share_one_object_keep_their_spans_apart(spans: Spans) -> None:
    same = stage(spans, "rerank")
    entered = threading.Event()
    left = threading.Event()
    own = []

    def rerank() -> None:
        with same:
            own.append(get_current_span())
            entered.set()
            assert left.wait(PATIENCE_S)

    thread = threading.Thread(target=rerank)
    with same:
        thread.start()
        assert entered.wait(PATIENCE_S)
        own.append(get_current_span())
    left.set()
    thread.join()

    assert spans.all == [own[1], own[0]]


def test_a_block_around_the_yield_of_a_dropped_stream_ends_without_a_complaint(
    spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "opentelemetry")

    async def stream() -> AsyncIterator[int]:
        with stage(spans, "decode"):
            yield 1
            yield 2

    async def main() -> None:
        tokens = stream()
        await asyncio.create_task(first_of(tokens))
        await asyncio.create_task(closed(tokens))

    asyncio.run(main())

    assert spans.only.attributes[semconv.CANCELLED] is True
    assert caplog.records == []


async def first_of(tokens: AsyncIterator[int]) -> int:
    return await anext(tokens)


async def closed(tokens: AsyncIterator[int]) -> None:
    await tokens.aclose()  # type: ignore[attr-defined]  # an async generator


def test_a_function_is_timed_each_time_it_is_called(spans: Spans) -> None:
    @stage(spans, "rerank")
    def rerank(number: int) -> int:
        return number + 1

    assert [rerank(1), rerank(2)] == [2, 3]

    assert spans.names == ["rerank", "rerank"]


def test_a_coroutine_function_is_timed_while_it_runs(spans: Spans) -> None:
    @stage(spans, "rerank")
    async def rerank(number: int) -> int:
        await asyncio.sleep(0)
        return number + 1

    assert asyncio.run(rerank(1)) == 2

    assert spans.names == ["rerank"]


def test_a_generator_function_is_timed_to_its_end(spans: Spans) -> None:
    @stage(spans, "decode")
    def tokens() -> Iterator[int]:
        yield from range(3)

    assert list(tokens()) == [0, 1, 2]

    assert spans.names == ["decode"]


def test_an_async_generator_function_is_timed_to_its_end(spans: Spans) -> None:
    @stage(spans, "decode")
    async def tokens() -> AsyncIterator[int]:
        for number in range(3):
            yield number

    async def main() -> list[int]:
        return [number async for number in tokens()]

    assert asyncio.run(main()) == [0, 1, 2]
    assert spans.names == ["decode"]


def test_methods_of_every_kind_are_timed(spans: Spans) -> None:
    class Ranker:
        @stage(spans, "rerank")
        def one(self) -> str:
            return type(self).__name__

        @classmethod
        @stage(spans, "rerank")
        def two(cls) -> str:
            return cls.__name__

        @staticmethod
        @stage(spans, "rerank")
        def three() -> str:
            return "Ranker"

    assert [Ranker().one(), Ranker.two(), Ranker.three()] == ["Ranker"] * 3

    assert len(spans.all) == 3


def test_an_attribute_that_is_no_scalar_is_left_out_and_kept_alive_by_nobody(
    spans: Spans,
) -> None:
    with stage(spans, "rerank", model=object(), size=3):  # type: ignore[arg-type]  # wrong on purpose
        pass

    assert dict(spans.only.attributes) == {semconv.STAGE: Stage.RERANK, "size": 3}


def test_without_an_agent_a_stage_is_a_block_like_any_other() -> None:
    @latencytrace.stage("rerank")
    def rerank() -> int:
        return 1

    with latencytrace.stage("retrieve"):
        assert rerank() == 1

    assert not isinstance(get_current_span(), RecordedSpan)


def test_the_first_stage_loads_only_what_it_needs_and_is_looked_up_once() -> None:
    program = (
        "import sys, latencytrace; latencytrace.stage; "
        "print('stage' in vars(latencytrace), 'asyncio' in sys.modules, "
        "'latencytrace.agent.toolkit' in sys.modules)"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert ended.stdout.split() == [b"True", b"False", b"False"]
