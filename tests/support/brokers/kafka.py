"""A broker of Kafka's for a test: librdkafka's own mock, which speaks the protocol on loopback."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.cimpl import Producer

from tests.support.waiting import PATIENCE_S


@contextmanager
def kafka_broker() -> Iterator[str]:
    """Serve; yields the address. Topics are made as they are asked for."""
    told = {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 2}
    holder = Producer(told)  # it ends with its last reference
    (broker,) = holder.list_topics(timeout=PATIENCE_S).brokers.values()
    yield f"{broker.host}:{broker.port}"
    holder.flush(PATIENCE_S)
