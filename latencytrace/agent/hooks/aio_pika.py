"""Messages of RabbitMQ with aio-pika."""

import sys
from typing import Any, Final

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.queues.messages import (
    Sent,
    by_keyword,
    described,
    destination_of,
    timed_sends,
    timed_work,
)
from latencytrace.agent.toolkit.queues.polling import Polling, Taken

_SYSTEM: Final = "rabbitmq"


def _with_headers(message: Any, headers: dict[str, Any]) -> Any:
    """Copy a message, which the program may send again, and which may be locked."""
    make, arguments, (others, slots), *_ = message.__reduce_ex__(4)
    copied = make(*arguments)
    for name, value in {**(others or {}), **slots, "headers": headers}.items():
        object.__setattr__(copied, name, value)
    return copied


def _sent(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sent:
    headers = {**(kwargs["message"].headers or {})}
    kwargs["message"] = _with_headers(kwargs["message"], headers)
    name = destination_of(args[0].name, kwargs["routing_key"])
    return Sent(name, headers, attributes=described(_SYSTEM, name))


def _taken(message: Any) -> Taken:
    name = destination_of(message.exchange, message.routing_key)
    return Taken(f"process {name}", message.headers or {}, described(_SYSTEM, name))


def _delivered(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Taken | None:
    callback, message = args[0], kwargs.get("msg") or args[1]
    iterator = sys.modules["aio_pika.abc"].AbstractQueueIterator
    if isinstance(getattr(callback, "__self__", None), iterator):  # which only keeps it
        return None
    name = destination_of(message.delivery.exchange, message.delivery.routing_key)
    headers = message.header.properties.headers or {}
    return Taken(f"process {name}", headers, described(_SYSTEM, name))


_iterators: Final = Polling(_taken)


class AioPikaHook(Hook):
    """Times what sends a message, and a consumer's callback or turn for each."""

    requires = ("aio-pika >= 9.0",)
    patches = (
        Replacement(
            "aio_pika.exchange",
            "Exchange.publish",
            by_keyword(("message", "routing_key"), timed_sends(_sent), needed=2),
        ),
        Replacement("aio_pika.queue", "consumer", timed_work(_delivered)),
        Replacement("aio_pika.queue", "QueueIterator.__anext__", _iterators.time),
        Replacement("aio_pika.queue", "QueueIterator.close", _iterators.close),
    )
