"""The hook of `transformers serve`: its inference thread, without a server around it."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from opentelemetry.context import Context
from opentelemetry.trace import Span, get_current_span
from transformers.cli.serving.utils import InferenceThread

from latencytrace.agent.hooks.threads import ThreadsHook
from latencytrace.agent.hooks.transformers_batching import TransformersServeHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, hooked


@pytest.fixture
def spans() -> Iterator[Spans]:
    import transformers.cli.serving.model_manager  # noqa: F401 - the hook needs it there

    with hooked(ThreadsHook, TransformersServeHook) as spans:
        yield spans


@pytest.fixture
def request_span(spans: Spans) -> Iterator[Span]:
    """A request that is current."""
    with spans.recorder.tracer.start_as_current_span("request") as span:
        yield span


def test_work_in_the_inference_thread_belongs_to_who_submitted_it(request_span: Span) -> None:
    seen = InferenceThread().submit(get_current_span).result()

    assert seen is request_span


def test_awaited_work_does_too(request_span: Span) -> None:
    async def main() -> object:
        return await InferenceThread().async_submit(get_current_span)

    assert asyncio.run(main()) is request_span


def test_the_wait_for_work_before_is_queue_time(spans: Spans, request_span: Span) -> None:
    thread, release = InferenceThread(), threading.Event()
    before = thread.submit(release.wait)
    waiting = thread.submit(lambda: None)
    at_release = len(spans.all)

    release.set()

    waiting.result()
    assert before.result()
    assert spans.stages == [Stage.QUEUE, Stage.QUEUE]
    assert at_release <= 1  # the second one's wait had not ended
    assert [span.parent for span in spans.all] == [request_span.get_span_context()] * 2


def test_the_thread_belongs_to_no_request_not_even_the_first(
    spans: Spans, request_span: Span
) -> None:
    thread = InferenceThread()
    first = thread.submit(get_current_span).result()

    other = spans.recorder.start("other request", context=Context())
    other.activate()
    second = thread.submit(get_current_span).result()
    other.deactivate()

    assert first is request_span
    assert second is other.span


def test_work_outside_of_any_request_is_not_timed(spans: Spans) -> None:
    seen = InferenceThread().submit(get_current_span).result()

    assert not seen.is_recording()
    assert spans.all == []


def test_what_the_work_raises_passes_through(spans: Spans, request_span: Span) -> None:
    def fail() -> None:
        raise LookupError("a secret")

    with pytest.raises(LookupError):
        InferenceThread().submit(fail).result()

    assert request_span.is_recording()
    assert spans.stages == [Stage.QUEUE]
