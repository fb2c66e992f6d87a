"""Messages of Kafka with aiokafka."""

from typing import Any, Final

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.queues import kafka
from latencytrace.agent.toolkit.queues.messages import by_keyword, timed_sends
from latencytrace.agent.toolkit.queues.polling import Polling, Taken

_PARAMETERS: Final = ("topic", "value", "key", "partition", "timestamp_ms", "headers")
_CONSUMER: Final = "aiokafka.consumer.consumer"


def _taken(result: Any) -> Taken | None:
    """Read a record; of several that are taken at once none is known to be worked on."""
    if isinstance(result, dict):
        records = [record for each in result.values() for record in each]
        if len(records) != 1:
            return None
        (result,) = records
    return kafka.taken(result.topic, result.headers)


_consumers: Final = Polling(_taken)


class AiokafkaHook(Hook):
    """Times what sends a message, and the work on each until the next one is asked for."""

    requires = ("aiokafka >= 0.10",)
    patches = (
        Replacement(
            "aiokafka.producer.producer",
            "AIOKafkaProducer.send",
            by_keyword(_PARAMETERS, timed_sends(kafka.sent)),
        ),
        Replacement(_CONSUMER, "AIOKafkaConsumer.getone", _consumers.time),
        Replacement(_CONSUMER, "AIOKafkaConsumer.getmany", _consumers.time),
        Replacement(_CONSUMER, "AIOKafkaConsumer.stop", _consumers.close),
    )
