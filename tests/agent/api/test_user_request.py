"""`latencytrace.request`: units of work without a server."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator

import pytest
from opentelemetry.trace import INVALID_SPAN, SpanKind, StatusCode, get_current_span

import latencytrace
from latencytrace.agent.api.requests import UserRequest
from latencytrace.agent.api.stages import UserStage
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import Stage, semconv
from tests.support.agent.dividing import span_of
from tests.support.agent.hooked import Spans
from tests.support.agent.receiving import TracedProgram


def request(spans: Spans, name: str, **attributes: str | int) -> UserRequest:
    return UserRequest(lambda: spans.recorder, name, dict(attributes))


def stage(spans: Spans, name: str) -> UserStage:
    return UserStage(lambda: spans.recorder, name, {})


def test_a_block_is_a_request_of_its_own_with_its_stages_below(spans: Spans) -> None:
    with request(spans, "nightly", documents=7), stage(spans, "embed"):
        pass

    embedding, nightly = spans.all
    assert embedding.parent_id == nightly.span_id
    assert (nightly.name, nightly.parent_id, nightly.kind) == ("nightly", 0, SpanKind.INTERNAL)
    assert dict(nightly.attributes) == {"documents": 7, semconv.CONCURRENCY: 1}
    assert get_current_span() is INVALID_SPAN


def test_a_request_within_another_one_is_none_of_its_parts(spans: Spans) -> None:
    with request(spans, "nightly"):
        around = get_current_span()
        with request(spans, "document"), stage(spans, "embed"):
            pass
        assert get_current_span() is around

    embedding, document, nightly = spans.all
    assert embedding.trace_id == document.trace_id != nightly.trace_id
    assert (document.parent_id, nightly.parent_id) == (0, 0)
    assert document.attributes[semconv.CONCURRENCY] == 2


def test_tokens_within_are_not_those_of_an_answer_that_is_streamed_around_it(
    spans: Spans,
) -> None:
    outer = spans.recorder.start("generate", Stage.DECODE)
    outer.collect_intervals()
    outer.activate()

    with request(spans, "nightly"):
        inside = spans.recorder.stream()

    assert inside is None
    assert spans.recorder.stream() is outer.intervals
    outer.deactivate()
    outer.end()


def test_what_a_block_raises_passes_through_and_fails_the_request(spans: Spans) -> None:
    raised = LookupError("a secret")

    with pytest.raises(LookupError) as caught, request(spans, "nightly"):
        raise raised

    assert caught.value is raised
    assert spans.only.status.status_code is StatusCode.ERROR
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert "secret" not in repr(spans.only.attributes)


def test_functions_of_all_four_kinds_are_requests_each_time_they_are_called(
    spans: Spans,
) -> None:
    @request(spans, "plain")
    def plain(number: int) -> int:
        with stage(spans, "embed"):
            return number + 1

    @request(spans, "awaited")
    async def awaited(number: int) -> int:
        with stage(spans, "embed"):
            await asyncio.sleep(0)
        return number + 1

    @request(spans, "generator")
    def generator() -> Iterator[int]:
        for number in range(2):
            with stage(spans, "embed"):
                pass
            yield number

    @request(spans, "async generator")
    async def async_generator() -> AsyncIterator[int]:
        for number in range(2):
            with stage(spans, "embed"):
                pass
            yield number

    async def main() -> list[int]:
        return [await awaited(1), *[number async for number in async_generator()]]

    assert [plain(1), plain(2), *generator()] == [2, 3, 0, 1]
    assert asyncio.run(main()) == [2, 0, 1]

    requests = [span for span in spans.all if span.parent_id == 0]
    assert [span.name for span in requests] == [
        "plain", "plain", "generator", "awaited", "async generator",
    ]  # fmt: skip
    ids = {span.span_id for span in requests}
    assert {span.parent_id for span in spans.of(Stage.EMBED)} == ids
    assert len({span.trace_id for span in requests}) == 5


def test_a_generator_that_is_dropped_ends_its_request(spans: Spans) -> None:
    @request(spans, "generator")
    def generator() -> Iterator[int]:
        yield from range(3)

    numbers = generator()
    next(numbers)
    del numbers
    gc.collect()

    assert spans.only.attributes[semconv.CANCELLED] is True


def test_a_function_that_raises_fails_its_request(spans: Spans) -> None:
    @request(spans, "failing")
    def failing() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        failing()

    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"


def test_collections_in_the_midst_of_it_are_noted(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latencytrace.agent.timing.runtime_gaps.NOTICED_NS", 0)
    with request(spans, "nightly"):
        gc.collect()

    assert semconv.INTERVALS in spans.only.attributes
    assert Stage.RUNTIME in str(spans.only.attributes[semconv.INTERVALS])


def test_the_service_makes_a_ledger_of_each_under_its_name(agent: TracedProgram) -> None:
    @latencytrace.request("document")
    def index() -> None:
        with latencytrace.stage("embed"):
            pass

    with latencytrace.request("nightly"):
        index()
        index()

    sent = agent.spans(at_least=5)
    requests = [
        request
        for trace_id in {span.trace_id for span in sent}
        for request in requests_of([span_of(s) for s in sent if s.trace_id == trace_id], {})
    ]
    assert sorted(one.route for one in requests) == ["document", "document", "nightly"]
    explained = [one for one in requests if Stage.EMBED in one.ledger]
    assert [one.route for one in explained] == ["document", "document"]


def test_without_an_agent_a_request_is_a_block_like_any_other() -> None:
    @latencytrace.request("nightly")
    def nightly() -> int:
        return 1

    with latencytrace.request("daily"):
        assert nightly() == 1

    assert get_current_span() is INVALID_SPAN
