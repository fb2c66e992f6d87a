"""The hook that carries the current span into threads and pools."""

import asyncio
import contextvars
import gc
import queue
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import anyio.to_thread
import pytest
from anyio._backends import _asyncio as anyio_backend
from opentelemetry import propagate
from opentelemetry.context import Context, attach, detach, get_value, set_value
from opentelemetry.trace import INVALID_SPAN, Span, get_current_span

from latencytrace.agent.hooks.threads import ThreadsHook
from tests.support.agent.hooked import Spans

HOOKS = (ThreadsHook,)


@pytest.fixture
def request_span(spans: Spans) -> Iterator[Span]:
    """A request that is current."""
    with spans.recorder.tracer.start_as_current_span("request") as span:
        yield span


def in_a_thread(thread: threading.Thread) -> None:
    thread.start()
    thread.join()


def test_a_thread_goes_on_with_the_span_of_who_started_it(request_span: Span) -> None:
    seen: list[Span] = []

    in_a_thread(threading.Thread(target=lambda: seen.append(get_current_span())))

    assert seen == [request_span]


def test_a_thread_of_a_class_of_its_own_does_too(request_span: Span) -> None:
    seen: list[Span] = []

    class Worker(threading.Thread):
        def run(self) -> None:
            seen.append(get_current_span())

    in_a_thread(Worker())

    assert seen == [request_span]


def test_a_timer_does_too(request_span: Span) -> None:
    seen: list[Span] = []

    in_a_thread(threading.Timer(0, lambda: seen.append(get_current_span())))

    assert seen == [request_span]


def test_a_thread_started_outside_a_request_belongs_to_none(spans: Spans) -> None:
    seen: list[Span] = []

    in_a_thread(threading.Thread(target=lambda: seen.append(get_current_span())))

    assert seen == [INVALID_SPAN]
    assert spans.all == []


def test_a_threads_own_run_is_its_class_s_again_once_it_runs(request_span: Span) -> None:
    thread = threading.Thread(target=lambda: None)

    in_a_thread(thread)

    assert request_span.is_recording()
    assert "run" not in vars(thread)


def test_a_thread_that_raises_raises_as_without_us(request_span: Span) -> None:
    raised: list[type[BaseException]] = []
    thread = threading.Thread(target=int, args=("none",))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading, "excepthook", lambda args: raised.append(args.exc_type))
        in_a_thread(thread)

    assert request_span.is_recording()
    assert raised == [ValueError]


def test_a_thread_that_is_started_twice_raises_and_holds_nothing(request_span: Span) -> None:
    thread = threading.Thread(target=lambda: None)
    in_a_thread(thread)

    with pytest.raises(RuntimeError, match="once"):
        thread.start()

    assert request_span.is_recording()
    assert "run" not in vars(thread)


def test_a_task_of_a_pool_goes_on_with_the_span_of_who_submitted_it(spans: Spans) -> None:
    with ThreadPoolExecutor(1) as pool:
        with spans.recorder.tracer.start_as_current_span("one") as one:
            first = pool.submit(get_current_span)
        with spans.recorder.tracer.start_as_current_span("two") as two:
            second = pool.submit(get_current_span)
        third = pool.submit(get_current_span)

    assert (first.result(), second.result(), third.result()) == (one, two, INVALID_SPAN)


def test_a_worker_made_by_a_request_does_not_stay_with_it(request_span: Span) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        token = attach(Context())
        after = pool.submit(get_current_span).result()
        detach(token)

    assert request_span.is_recording()
    assert after is INVALID_SPAN


def test_what_else_is_in_the_context_comes_along(request_span: Span) -> None:
    token = attach(set_value("baggage", "carried"))
    try:
        with ThreadPoolExecutor(1) as pool:
            carried = pool.submit(get_value, "baggage").result()
    finally:
        detach(token)

    assert request_span.is_recording()
    assert carried == "carried"


def test_an_executor_of_the_event_loop_does_too(spans: Spans) -> None:
    async def main() -> tuple[Span, Span]:
        with spans.recorder.tracer.start_as_current_span("request") as span:
            loop = asyncio.get_running_loop()
            return span, await loop.run_in_executor(None, get_current_span)

    span, seen = asyncio.run(main())

    assert seen is span


def test_a_task_keeps_its_arguments_its_result_and_its_error(request_span: Span) -> None:
    with ThreadPoolExecutor(1) as pool:
        kept = pool.submit(dict, [("a", 1)], b=2).result()
        failed = pool.submit(int, "none").exception()
        mapped = list(pool.map(abs, [-1, -2]))

    assert request_span.is_recording()
    assert kept == {"a": 1, "b": 2}
    assert isinstance(failed, ValueError)
    assert mapped == [1, 2]


def test_a_wrong_submit_raises_as_without_us(request_span: Span) -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(TypeError):
        pool.submit()  # type: ignore[call-arg]  # wrong on purpose

    assert request_span.is_recording()


def test_a_task_that_is_done_keeps_no_request_alive(spans: Spans) -> None:
    class Large:
        """What a request holds."""

    with ThreadPoolExecutor(1) as pool:

        def request() -> weakref.ref[Large]:
            large = Large()
            token = attach(set_value("large", large))
            pool.submit(int).result()
            detach(token)
            return weakref.ref(large)

        gone = contextvars.Context().run(request)
        pool.submit(int).result()
        gc.collect()

        assert gone() is None
    assert spans.all == []


@pytest.mark.usefixtures("spans")
def test_a_thread_goes_on_with_the_span_of_another_process() -> None:
    seen: list[Span] = []
    remote = {"traceparent": f"00-{1:032x}-{2:016x}-01"}

    token = attach(propagate.extract(remote))
    in_a_thread(threading.Thread(target=lambda: seen.append(get_current_span())))
    detach(token)

    assert [span.get_span_context().span_id for span in seen] == [2]


def test_a_callback_outside_of_any_request_is_the_programs_own(spans: Spans) -> None:
    called: list[object] = []
    future: Future[int] = Future()

    future.add_done_callback(called.append)
    future.set_result(1)

    assert called == [future]
    assert spans.all == []


def test_a_thread_of_anyios_pool_belongs_to_no_request(
    request_span: Span, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It serves those to come as well, and would keep the first one's context alive."""
    seen: list[Span] = []

    class Queue(queue.Queue[Any]):
        """Looks what is current in the thread that waits for work."""

        def get(self, *given: Any) -> Any:
            seen.append(get_current_span())
            return super().get(*given)

    monkeypatch.setattr(anyio_backend, "Queue", Queue)

    async def carried_along() -> Span:
        return await anyio.to_thread.run_sync(get_current_span)

    carried = anyio.run(carried_along)

    assert request_span.is_recording()
    assert carried is request_span
    assert seen[0] is INVALID_SPAN
