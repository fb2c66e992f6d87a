"""Messages of Dramatiq: when they were sent, and the caller's context in their options."""

from collections.abc import Mapping
from typing import Any

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.queues.messages import Sent, timed_sends, timed_work


def _sent(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sent:
    message = kwargs.get("message") or args[1]
    return Sent(message.actor_name, message.options, kwargs.get("delay") is None)


def _message(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Mapping[str, Any]]:
    message = kwargs.get("message") or args[1]
    return message.actor_name, message.options


def _failure(args: tuple[Any, ...], _: object) -> BaseException | None:
    """Find what an actor raised, which is kept with its message."""
    found = getattr(args[1], "_exception", None)
    return found if isinstance(found, BaseException) else None


class DramatiqHook(Hook):
    """Times how every broker takes a message, and a worker's thread that works on it."""

    requires = ("dramatiq >= 1.15",)
    patches = (
        Replacement("dramatiq.broker", "Broker.enqueue", timed_sends(_sent), later=True),
        # A name of old, which its newer versions keep.
        Replacement(
            "dramatiq.worker", "_WorkerThread.process_message", timed_work(_message, _failure)
        ),
    )
