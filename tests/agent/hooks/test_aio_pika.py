"""The hook of aio-pika, against a RabbitMQ server."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from latencytrace.agent.hooks.aio_pika import AioPikaHook
from tests.support.agent.hooked import Spans, in_request
from tests.support.agent.queued_work import check_message

aio_pika = pytest.importorskip("aio_pika")
aiormq = pytest.importorskip("aiormq")
commands, header = pytest.importorskip("pamqp.commands"), pytest.importorskip("pamqp.header")

HOOKS = (AioPikaHook,)
Queue = Any  # of aio-pika, which need not be there


async def connected(
    address: str, name: str, use: Callable[[Any, Queue], Awaitable[object]]
) -> None:
    """Use a channel, and a queue of the test's own."""
    async with await aio_pika.connect(address) as connection:
        channel = await connection.channel()
        await use(channel.default_exchange, await channel.declare_queue(name))


def test_from_its_sending_to_its_start_a_message_that_is_awaited_was_queued(
    spans: Spans, rabbitmq: str
) -> None:
    message = aio_pika.Message(b"a secret", headers={"x-own": "kept"})
    name = "orders-called-back"
    got: list[Any] = []

    async def use(exchange: Any, queue: Queue) -> None:
        done = asyncio.Event()

        async def work(message: Any) -> None:
            async with message.process():
                got.append((message.body, message.headers["x-own"]))
            done.set()

        async def consume() -> None:
            tag = await queue.consume(work)
            await done.wait()
            await queue.cancel(tag)

        await exchange.publish(message, name)
        await asyncio.create_task(consume(), context=Context())

    in_request(spans, lambda: asyncio.run(connected(rabbitmq, name, use)))

    check_message(spans, "rabbitmq", name)
    assert got == [(b"a secret", "kept")]
    assert message.headers == {"x-own": "kept"}


def delivered(name: str) -> Any:
    """A message as it comes from the server, made without one."""
    return aiormq.abc.DeliveredMessage(
        delivery=commands.Basic.Deliver("tag", 1, exchange="", routing_key=name),
        header=header.ContentHeader(properties=commands.Basic.Properties(headers={})),
        body=b"first",
        channel=Mock(),
    )


def test_a_callback_may_have_the_name_of_an_iterators_own(spans: Spans) -> None:
    bodies: list[bytes] = []

    async def on_message(message: Any) -> None:
        bodies.append(message.body)

    asyncio.run(aio_pika.queue.consumer(on_message, delivered("orders"), no_ack=True))

    assert bodies == [b"first"]
    assert spans.names == ["process orders"]


def test_what_only_keeps_a_message_for_an_iteration_is_no_work_on_it(spans: Spans) -> None:
    async def keep() -> None:
        messages = aio_pika.queue.QueueIterator(MagicMock())
        await aio_pika.queue.consumer(messages.on_message, delivered("orders"), no_ack=True)

    asyncio.run(keep())

    assert spans.names == []


def test_the_work_on_a_message_of_an_iteration_lasts_until_the_next(
    spans: Spans, rabbitmq: str
) -> None:
    tracer = spans.provider.get_tracer("program")
    name = "orders-iterated"

    async def use(exchange: Any, queue: Queue) -> None:
        for body in (b"first", b"second"):
            await exchange.publish(aio_pika.Message(body), routing_key=name)
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    with tracer.start_as_current_span(message.body.decode()):
                        await asyncio.sleep(0)
                if message.body == b"second":
                    break

    asyncio.run(connected(rabbitmq, name, use))

    work = [span for span in spans.all if span.name == f"process {name}"]
    assert spans.names == ["first", work[0].name, "second", work[1].name]
    assert [span.parent_id for span in spans.all] == [work[0].span_id, 0, work[1].span_id, 0]


def test_a_message_that_is_handed_on_carries_the_context_anew(spans: Spans, rabbitmq: str) -> None:
    """A message that was taken is locked, and belongs to its queue."""
    name = "orders-handed-on"

    async def use(exchange: Any, queue: Queue) -> None:
        await exchange.publish(aio_pika.Message(b"a secret"), name)
        taken = await queue.get()
        await taken.ack()
        await exchange.publish(taken, name)
        again = await queue.get(no_ack=True)
        assert again.body == b"a secret"
        assert taken.headers["traceparent"] != again.headers["traceparent"]

    in_request(spans, lambda: asyncio.run(connected(rabbitmq, name, use)))

    assert spans.names == [f"send {name}", f"send {name}", "request"]
