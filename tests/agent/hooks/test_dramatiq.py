"""The hook of Dramatiq: real workers, over its broker in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from latencytrace.agent.hooks.task_queues import DramatiqHook
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans, hooked, in_request
from tests.support.agent.queued_work import check_waited

dramatiq = pytest.importorskip("dramatiq")


@pytest.fixture
def spans() -> Iterator[Spans]:
    from dramatiq.brokers.stub import StubBroker

    with hooked(DramatiqHook) as spans:
        broker = StubBroker()
        dramatiq.set_broker(broker)
        yield spans
        broker.close()


@contextmanager
def working() -> Iterator[Any]:
    """A worker, until all that is queued is done."""
    broker = dramatiq.get_broker()
    worker = dramatiq.Worker(broker, worker_threads=1, worker_timeout=10)
    worker.start()
    try:
        yield broker
        broker.join("default")
        worker.join()
    finally:
        worker.stop()


def test_from_its_sending_to_its_start_a_message_that_is_awaited_was_queued(spans: Spans) -> None:
    got: list[int] = []

    @dramatiq.actor  # type: ignore[untyped-decorator]  # it need not be there
    def add(one: int, other: int) -> None:
        got.append(one + other)

    def send_and_wait() -> None:
        add.send(1, 2)
        with working():
            spans.wait_for(2)

    in_request(spans, send_and_wait)

    assert got == [3]
    check_waited(spans, "add")


BROKER = """
from dramatiq.brokers.stub import StubBroker

class Own(StubBroker):
    def enqueue(self, message, *, delay=None):
        return super().enqueue(message, delay=delay)
"""


def test_a_broker_that_hands_a_message_on_to_the_class_above_sends_it_once(spans: Spans) -> None:
    made: dict[str, Any] = {"__name__": "imported_later"}
    exec(BROKER, made)  # noqa: S102 - our own
    dramatiq.set_broker(made["Own"]())

    @dramatiq.actor  # type: ignore[untyped-decorator]
    def work() -> None: ...

    def send_and_wait() -> None:
        work.send()
        with working():
            spans.wait_for(2)

    in_request(spans, send_and_wait)

    dramatiq.get_broker().close()
    check_waited(spans, "work")


def test_a_message_that_is_to_be_worked_on_later_is_not_awaited(spans: Spans) -> None:
    @dramatiq.actor  # type: ignore[untyped-decorator]
    def later() -> None: ...

    with working():
        in_request(spans, lambda: later.send_with_options(delay=1))
        spans.wait_for(2)

    made = {span.name: span for span in spans.all}
    assert set(made) == {"later", "request"}
    assert made["later"].trace_id == made["request"].trace_id


def test_an_actor_that_fails_and_is_tried_again_is_a_span_each_time(
    spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[int] = []

    @dramatiq.actor(max_retries=1, min_backoff=1, max_backoff=1)  # type: ignore[untyped-decorator]
    def flaky() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise LookupError("of the program")

    with caplog.at_level("CRITICAL"), working():
        flaky.send()
        spans.wait_for(2)

    first, second = spans.all
    assert [first.name, second.name] == ["flaky", "flaky"]
    assert first.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert semconv.ERROR_TYPE not in second.attributes
    assert second.trace_id == first.trace_id
