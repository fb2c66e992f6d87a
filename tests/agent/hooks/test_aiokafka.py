"""The hook of aiokafka, over a broker that speaks Kafka's protocol."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextvars import Context
from typing import Any

import aiokafka
import pytest

from latencytrace.agent.hooks.kafka import AiokafkaHook
from tests.support.agent.hooked import Spans, in_request
from tests.support.agent.queued_work import check_message
from tests.support.brokers.kafka import kafka_broker

HOOKS = (AiokafkaHook,)


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with kafka_broker() as address:
        yield address


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    return f"orders-of-{request.node.name}"


async def send(broker: str, topic: str, *values: bytes) -> None:
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker) as producer:
        for value in values or (b"a secret",):
            await producer.send_and_wait(topic, value, headers=[("x-own", b"kept")])


async def consuming(broker: str, topic: str, work: Callable[[Any], Awaitable[object]]) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=broker, auto_offset_reset="earliest", group_id=None
    )
    async with consumer:
        await work(consumer)


def test_from_its_sending_to_its_start_a_message_that_is_awaited_was_queued(
    spans: Spans, broker: str, topic: str
) -> None:
    got: list[Any] = []

    async def work(consumer: Any) -> None:
        got.append(await anext(consumer))

    async def ask() -> None:
        await send(broker, topic)
        # As in a process of its own.
        await asyncio.create_task(consuming(broker, topic, work), context=Context())

    in_request(spans, lambda: asyncio.run(ask()))

    check_message(spans, "kafka", topic)
    assert (got[0].value, dict(got[0].headers)["x-own"]) == (b"a secret", b"kept")


def test_the_work_on_a_message_lasts_until_the_next_is_asked_for(
    spans: Spans, broker: str, topic: str
) -> None:
    tracer = spans.provider.get_tracer("program")

    async def work(consumer: Any) -> None:
        async for message in consumer:
            with tracer.start_as_current_span(message.value.decode()):
                await asyncio.sleep(0)
            if message.value == b"second":
                break

    async def run() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker) as producer:
            for value in (b"first", b"second"):
                await producer.send_and_wait(topic, value, partition=0)
        await consuming(broker, topic, work)

    asyncio.run(run())

    process = [span for span in spans.all if span.name == f"process {topic}"]
    assert spans.names == ["first", process[0].name, "second", process[1].name]
    parents = [process[0].span_id, 0, process[1].span_id, 0]
    assert [span.parent_id for span in spans.all] == parents


def test_a_batch_of_one_is_a_message_and_one_of_several_is_none(
    spans: Spans, broker: str, topic: str
) -> None:
    sizes: list[int] = []

    async def work(consumer: Any) -> None:
        for most in (1, 2):
            taken = 0
            while taken < most:
                found = await consumer.getmany(timeout_ms=50, max_records=most)
                taken = sum(map(len, found.values()))
            sizes.append(taken)

    async def run() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker) as producer:
            batch = producer.create_batch()  # one set of messages, which comes as one
            for value in (b"one", b"two", b"three"):
                batch.append(key=None, value=value, timestamp=None)
            await (await producer.send_batch(batch, topic, partition=0))
        await consuming(broker, topic, work)

    asyncio.run(run())

    assert sizes == [1, 2]
    assert spans.names == [f"process {topic}"]
