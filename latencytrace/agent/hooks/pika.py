"""Messages of RabbitMQ with pika, over a connection that blocks or any other."""

import sys
from collections.abc import Iterator
from copy import copy
from functools import wraps
from typing import Any, Final

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.queues.messages import (
    Sent,
    by_keyword,
    described,
    destination_of,
    timed_sends,
    timed_work,
)
from latencytrace.agent.toolkit.queues.polling import Taken, UnderWay, end_latest

_SYSTEM: Final = "rabbitmq"
_BLOCKING: Final = "pika.adapters.blocking_connection"
_INNER: Final = "_on_consumer_message_delivery"  # hands on to a callback that is timed


def _sent(_: tuple[Any, ...], kwargs: dict[str, Any]) -> Sent:
    # A program may send many messages with the same properties.
    given = kwargs.get("properties") or sys.modules["pika.spec"].BasicProperties()
    properties = kwargs["properties"] = copy(given)
    properties.headers = {**(given.headers or {})}
    name = destination_of(kwargs["exchange"], kwargs["routing_key"])
    return Sent(name, properties.headers, attributes=described(_SYSTEM, name))


def _taken(method: Any, properties: Any) -> Taken:
    name = destination_of(method.exchange, method.routing_key)
    return Taken(f"process {name}", properties.headers or {}, described(_SYSTEM, name))


def _delivered(args: tuple[Any, ...], _: dict[str, Any]) -> Taken:
    return _taken(args[1], args[2])


_time_sends: Final = by_keyword(
    ("exchange", "routing_key", "body", "properties", "mandatory"), timed_sends(_sent), needed=2
)
_time_work: Final = timed_work(_delivered)


def _with_timed_callback(recorder: Recorder, original: Timed) -> Timed:
    @wraps(original)
    def basic_consume(*args: Any, **kwargs: Any) -> Any:
        with guarded("timing a consumer", recorder.on_fault):
            callback = kwargs["on_message_callback"]
            if callable(callback) and getattr(callback, "__name__", None) != _INNER:
                kwargs["on_message_callback"] = _time_work(recorder, callback)
        return original(*args, **kwargs)

    return basic_consume


_time_callbacks: Final = by_keyword(
    ("queue", "on_message_callback", "auto_ack", "exclusive", "consumer_tag", "arguments"),
    _with_timed_callback,
    needed=2,
)


def time_iteration(recorder: Recorder, original: Timed) -> Timed:
    """Time the work on each message between two that a generator gives."""

    @wraps(original)
    def consume(*args: Any, **kwargs: Any) -> Iterator[Any]:
        under_way, messages = UnderWay(recorder), original(*args, **kwargs)
        end_latest(recorder)
        try:
            for message in messages:
                with guarded("beginning work", recorder.on_fault):
                    method, properties, _ = message
                    under_way.begin(None if method is None else _taken(method, properties))
                yield message
                under_way.end()
                end_latest(recorder)
        finally:
            under_way.end()
            messages.close()

    return consume


class PikaHook(Hook):
    """Times what sends a message, and a consumer's callback or turn for each."""

    requires = ("pika >= 1.2",)
    patches = (
        Replacement("pika.channel", "Channel.basic_publish", _time_sends),
        Replacement(_BLOCKING, "BlockingChannel.basic_publish", _time_sends),
        Replacement("pika.channel", "Channel.basic_consume", _time_callbacks),
        Replacement(_BLOCKING, "BlockingChannel.basic_consume", _time_callbacks),
        Replacement(_BLOCKING, "BlockingChannel.consume", time_iteration),
    )
