"""The hook of Confluent's client for Kafka, over a broker that speaks Kafka's protocol."""

import asyncio
import gc
from collections.abc import Iterator
from contextvars import Context, copy_context
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import deserializing_consumer, serializing_producer
from opentelemetry.trace import get_current_span

from latencytrace.agent.hooks.kafka import ConfluentKafkaHook
from tests.support.agent.hooked import Spans, in_request
from tests.support.agent.queued_work import check_message, check_waited
from tests.support.brokers.kafka import kafka_broker
from tests.support.waiting import PATIENCE_S, until

HOOKS = (ConfluentKafkaHook,)
Message = Any  # its types are of its newer versions


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with kafka_broker() as address:
        yield address


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    return f"orders-of-{request.node.name}"


def first_of(topic: str) -> confluent_kafka.TopicPartition:
    return confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)


def told(broker: str) -> dict[str, Any]:
    return {"bootstrap.servers": broker, "group.id": "workers", "enable.auto.commit": False}


def consuming(broker: str, topic: str) -> confluent_kafka.Consumer:
    consumer = confluent_kafka.Consumer(told(broker))
    consumer.assign([first_of(topic)])
    return consumer


def send(broker: str, topic: str, *values: bytes) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker})
    for value in values or (b"a secret",):
        producer.produce(topic, value, None, 0, headers=[("x-own", b"kept")])
    assert producer.flush(PATIENCE_S) == 0


def polled(consumer: Any) -> Message:
    return until(lambda: consumer.poll(0.05))


def test_from_its_sending_to_its_start_a_message_that_is_awaited_was_queued(
    spans: Spans, broker: str, topic: str
) -> None:
    got: list[Message] = []

    def work() -> None:
        consumer = consuming(broker, topic)
        got.append(polled(consumer))
        consumer.close()

    def ask() -> None:
        send(broker, topic)
        Context().run(work)  # as in a process of its own

    in_request(spans, ask)

    check_message(spans, "kafka", topic)
    assert (got[0].value(), dict(got[0].headers())["x-own"]) == (b"a secret", b"kept")


def test_the_work_on_a_message_lasts_until_the_next_is_asked_for(
    spans: Spans, broker: str, topic: str
) -> None:
    send(broker, topic, b"one", b"two")
    tracer = spans.provider.get_tracer("program")
    consumer = consuming(broker, topic)

    for name in ("first", "second"):
        polled(consumer)
        with tracer.start_as_current_span(name):
            pass
    consumer.close()

    work = [span for span in spans.all if span.name == f"process {topic}"]
    assert spans.names == ["first", work[0].name, "second", work[1].name]
    assert [span.parent_id for span in spans.all] == [work[0].span_id, 0, work[1].span_id, 0]
    assert work[0].trace_id != work[1].trace_id
    assert not get_current_span().is_recording()


def test_an_answer_that_a_request_waits_for_is_its_own_work(
    spans: Spans, broker: str, topic: str
) -> None:
    send(broker, topic)
    consumer = consuming(broker, topic)

    in_request(spans, lambda: polled(consumer))
    consumer.close()

    assert spans.names == ["request"]


def test_of_several_messages_taken_at_once_none_is_the_one_worked_on(
    spans: Spans, broker: str, topic: str
) -> None:
    send(broker, topic, b"one", b"two")
    consumer = consuming(broker, topic)

    assert len(consumer.consume(2, PATIENCE_S)) == 2
    consumer.close()

    assert spans.names == []


def test_a_consumer_that_is_dropped_ends_the_work(spans: Spans, broker: str, topic: str) -> None:
    send(broker, topic)
    consumer = consuming(broker, topic)
    polled(consumer)

    del consumer
    gc.collect()

    assert spans.names == [f"process {topic}"]


@pytest.mark.parametrize("name", ["Consumer", "DeserializingConsumer"])
def test_the_end_of_a_with_statement_ends_the_work(
    spans: Spans, broker: str, topic: str, name: str
) -> None:
    kind = getattr(confluent_kafka, name)
    if not hasattr(kind, "__exit__"):
        pytest.skip("consumers of this version are no context managers")
    send(broker, topic)

    with kind(told(broker)) as consumer:
        consumer.assign([first_of(topic)])
        polled(consumer)
        assert spans.names == []

    assert spans.names == [f"process {topic}"]
    assert not get_current_span().is_recording()


def test_of_two_consumers_asked_in_turn_each_message_is_work_of_its_own(
    spans: Spans, broker: str, topic: str
) -> None:
    topics = (f"{topic}-a", f"{topic}-b")
    for name in topics:
        send(broker, name, b"one", b"two")
    consumers = [consuming(broker, name) for name in topics]

    for consumer in (*consumers, *consumers):
        polled(consumer)
    for consumer in consumers:
        consumer.close()

    assert spans.names == [f"process {name}" for name in (*topics, *topics)]
    assert {span.parent_id for span in spans.all} == {0}
    assert len({span.trace_id for span in spans.all}) == len(spans.all)


def test_a_task_that_asks_another_consumer_leaves_the_work_it_began_in_alone(
    spans: Spans, broker: str, topic: str
) -> None:
    answers = f"{topic}-answers"
    send(broker, topic)
    send(broker, answers)
    consumer, other = consuming(broker, topic), consuming(broker, answers)

    polled(consumer)
    copy_context().run(polled, other)  # as a task has its own
    assert spans.names == []
    consumer.close()
    other.close()

    assert spans.names == [f"process {topic}"]


def test_a_call_that_is_wrong_says_so_as_without_the_hook(spans: Spans, broker: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker})

    with pytest.raises(TypeError):
        producer.produce("one", topic="another")
    with pytest.raises(TypeError):
        producer.produce()
    with pytest.raises(TypeError):
        in_request(spans, lambda: producer.produce("one", headers=3))


def test_clients_that_serialize_are_timed_the_same(spans: Spans, broker: str, topic: str) -> None:
    def text(value: str, _: object) -> bytes:
        return value.encode()

    def ask() -> None:
        producer = serializing_producer.SerializingProducer(
            {"bootstrap.servers": broker, "value.serializer": text}
        )
        producer.produce(topic, value="a secret", partition=0)
        producer.flush(PATIENCE_S)
        Context().run(work)

    def work() -> None:
        consumer = deserializing_consumer.DeserializingConsumer(
            {**told(broker), "value.deserializer": lambda value, _: value.decode()}
        )
        consumer.assign([first_of(topic)])
        assert polled(consumer).value() == "a secret"
        consumer.close()

    in_request(spans, ask)

    check_waited(spans, topic, f"process {topic}")


def test_a_consumer_for_asyncio_makes_its_work_current_in_the_task(
    spans: Spans, broker: str, topic: str
) -> None:
    async def work() -> None:
        aio = pytest.importorskip("confluent_kafka.aio")
        consumer = aio.AIOConsumer(told(broker), max_workers=2)
        await consumer.assign([first_of(topic)])
        while await consumer.poll(0.05) is None:
            pass
        with spans.provider.get_tracer("program").start_as_current_span("inside"):
            pass
        await consumer.close()

    send(broker, topic)
    asyncio.run(work())

    assert spans.names == ["inside", f"process {topic}"]
    assert spans.all[0].parent_id == spans.all[1].span_id
