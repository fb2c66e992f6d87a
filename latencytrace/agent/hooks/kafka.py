"""Messages of Kafka with aiokafka and with confluent-kafka."""

from typing import Any, Final

from latencytrace.agent.timing.hook import Arguments, Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import Build, after
from latencytrace.agent.toolkit.queues import kafka
from latencytrace.agent.toolkit.queues.messages import by_keyword, timed_sends
from latencytrace.agent.toolkit.queues.polling import Polling, Taken

_AIOKAFKA_PARAMETERS: Final = ("topic", "value", "key", "partition", "timestamp_ms", "headers")
_CONSUMER: Final = "aiokafka.consumer.consumer"


def _aiokafka_taken(result: Any) -> Taken | None:
    """Read a record; of several that are taken at once none is known to be worked on."""
    if isinstance(result, dict):
        records = [record for each in result.values() for record in each]
        if len(records) != 1:
            return None
        (result,) = records
    return kafka.taken(result.topic, result.headers)


_aiokafka_consumers: Final = Polling(_aiokafka_taken)


class AiokafkaHook(Hook):
    """Times what sends a message, and the work on each until the next one is asked for."""

    requires = ("aiokafka >= 0.10",)
    patches = (
        Replacement(
            "aiokafka.producer.producer",
            "AIOKafkaProducer.send",
            by_keyword(_AIOKAFKA_PARAMETERS, timed_sends(kafka.sent)),
        ),
        Replacement(_CONSUMER, "AIOKafkaConsumer.getone", _aiokafka_consumers.time),
        Replacement(_CONSUMER, "AIOKafkaConsumer.getmany", _aiokafka_consumers.time),
        Replacement(_CONSUMER, "AIOKafkaConsumer.stop", _aiokafka_consumers.close),
    )


_CONFLUENT_KAFKA_PARAMETERS: Final = (
    "topic", "value", "key", "partition", "callback", "on_delivery", "timestamp", "headers",
)  # fmt: skip


def _confluent_kafka_taken(result: Any) -> Taken | None:
    """Read a message; of several that are taken at once none is known to be worked on."""
    messages = result if isinstance(result, list) else [result]
    if len(messages) != 1 or messages[0] is None or messages[0].error() is not None:
        return None
    return kafka.taken(messages[0].topic(), messages[0].headers())


_confluent_kafka_consumers: Final = Polling(_confluent_kafka_taken)
_time_sends: Final = by_keyword(_CONFLUENT_KAFKA_PARAMETERS, timed_sends(kafka.sent))


def _leave_out(_: Recorder, arguments: Arguments, __: object) -> None:
    """Leave the consumer in C to the one for asyncio, which asks it in a thread."""
    outer: Any = arguments["self"]
    _confluent_kafka_consumers.leave_out(outer._consumer)


def _subclassed(**methods: Build) -> Build:
    """Build a subclass of a type in C: its own methods cannot be replaced.

    Args:
        methods: What is in their place; not every supported version has each.
    """

    def build(recorder: Recorder, original: Timed) -> Any:
        kind: Any = original
        timed = {
            name: each(recorder, getattr(kind, name))
            for name, each in methods.items()
            if hasattr(kind, name)
        }
        named = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
        return type(kind.__name__, (kind,), {**named, **timed})

    return build


class ConfluentKafkaHook(Hook):
    """Times what sends a message, and the work on each until the next one is asked for."""

    requires = ("confluent-kafka >= 2.0",)
    patches = (
        Replacement("confluent_kafka", "Producer", _subclassed(produce=_time_sends)),
        Replacement(
            "confluent_kafka",
            "Consumer",
            _subclassed(
                poll=_confluent_kafka_consumers.time,
                consume=_confluent_kafka_consumers.time,
                close=_confluent_kafka_consumers.close,
                __exit__=_confluent_kafka_consumers.close,  # which does not call `close`
            ),
        ),
        # These have the types in C as their bases.
        Replacement(
            "confluent_kafka.serializing_producer",
            "SerializingProducer.produce",
            by_keyword(
                ("topic", "key", "value", "partition", "on_delivery", "timestamp", "headers"),
                timed_sends(kafka.sent),
            ),
        ),
        Replacement(
            "confluent_kafka.deserializing_consumer",
            "DeserializingConsumer.poll",
            _confluent_kafka_consumers.time,
        ),
        Replacement(
            "confluent_kafka.deserializing_consumer",
            "DeserializingConsumer.close",
            _confluent_kafka_consumers.close,
        ),
        Replacement(
            "confluent_kafka.deserializing_consumer",
            "DeserializingConsumer.__exit__",
            _confluent_kafka_consumers.close,
            optional=True,
        ),
        *(
            Replacement("confluent_kafka.aio._AIOConsumer", f"AIOConsumer.{method}", build)
            for method, build in {
                "__init__": after("making a consumer", _leave_out),
                "poll": _confluent_kafka_consumers.time,
                "consume": _confluent_kafka_consumers.time,
                "close": _confluent_kafka_consumers.close,
            }.items()
        ),
    )
