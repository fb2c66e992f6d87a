"""The hook of pika, against a RabbitMQ server."""

from collections.abc import Iterator
from contextlib import closing
from contextvars import Context
from typing import Any

import pytest

from latencytrace.agent.hooks.pika import PikaHook
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request
from tests.support.agent.queued_work import check_message

pika = pytest.importorskip("pika")

HOOKS = (PikaHook,)
Channel = Any  # of pika, which need not be there


@pytest.fixture
def channel(rabbitmq: str) -> Iterator[Channel]:
    with closing(pika.BlockingConnection(pika.URLParameters(rabbitmq))) as connection:
        yield connection.channel()


@pytest.fixture
def queue(channel: Channel, request: pytest.FixtureRequest) -> str:
    """A queue of the test's own."""
    name = f"orders-of-{request.node.name}"
    channel.queue_declare(name, auto_delete=False)
    return name


def properties() -> Any:
    return pika.BasicProperties(headers={"x-own": "kept"})


def test_from_its_sending_to_its_start_a_message_that_is_awaited_was_queued(
    spans: Spans, channel: Channel, queue: str
) -> None:
    got: list[Any] = []
    sent = properties()

    def done(channel: Channel, _: object, properties: Any, body: bytes) -> None:
        got.append((body, properties.headers["x-own"]))
        channel.stop_consuming()

    def ask() -> None:
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"a secret", sent)
        channel.basic_consume(queue, done, auto_ack=True)
        Context().run(channel.start_consuming)

    in_request(spans, ask)

    check_message(spans, "rabbitmq", queue)
    assert got == [(b"a secret", "kept")]
    assert sent.headers == {"x-own": "kept"}


def test_the_work_on_a_message_of_an_iteration_lasts_until_the_next(
    spans: Spans, channel: Channel, queue: str
) -> None:
    for body in (b"first", b"second"):
        channel.basic_publish("", queue, body)
    tracer = spans.provider.get_tracer("program")

    for _, _, body in channel.consume(queue, auto_ack=True):
        with tracer.start_as_current_span(body.decode()):
            pass
        if body == b"second":
            break
    channel.cancel()

    work = [span for span in spans.all if span.name == f"process {queue}"]
    assert spans.names == ["first", work[0].name, "second", work[1].name]
    assert [span.parent_id for span in spans.all] == [work[0].span_id, 0, work[1].span_id, 0]


def test_a_callback_that_fails_is_an_error_of_its_span(
    spans: Spans, channel: Channel, queue: str
) -> None:
    def fail(*_: object) -> None:
        raise LookupError("a secret")

    channel.basic_publish("", queue, b"")
    channel.basic_consume(queue, fail, auto_ack=True)

    with pytest.raises(LookupError):
        channel.start_consuming()

    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert "secret" not in attribute_text(spans)


def test_queues_that_the_server_named_are_anonymous(spans: Spans, channel: Channel) -> None:
    name = channel.queue_declare("", exclusive=True).method.queue

    in_request(spans, lambda: channel.basic_publish("", name, b""))

    assert spans.names == ["send (anonymous)", "request"]


def test_a_connection_with_a_loop_of_its_own_is_timed_the_same(
    spans: Spans, rabbitmq: str, channel: Channel, queue: str
) -> None:
    def opened(connection: Any) -> None:
        connection.channel(on_open_callback=consume)

    def consume(channel: Channel) -> None:
        channel.basic_consume(queue, done, auto_ack=True)

    def done(channel: Channel, *_: object) -> None:
        channel.connection.close()

    channel.basic_publish("", queue, b"a secret")
    connection = pika.SelectConnection(
        pika.URLParameters(rabbitmq),
        on_open_callback=opened,
        on_close_callback=lambda connection, _: connection.ioloop.stop(),
    )
    connection.ioloop.start()
    connection.ioloop.close()

    assert spans.names == [f"process {queue}"]
