"""Messages of Kafka, whichever client sends and takes them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from latencytrace.agent.toolkit.queues.messages import W3C, Sent, described
from latencytrace.agent.toolkit.queues.polling import Taken

_SYSTEM: Final = "kafka"
Pairs = Iterable[tuple[str, Any]]


class HeaderPairs:
    """Headers as Kafka has them, pairs of a name and bytes; of those of a name one is kept."""

    def __init__(self, given: Mapping[str, Any] | Pairs) -> None:
        self.pairs = list(given.items() if isinstance(given, Mapping) else given)

    def __setitem__(self, name: str, value: str) -> None:
        """Set one, in place of any that has its name."""
        kept = [pair for pair in self.pairs if pair[0] != name]
        self.pairs[:] = [*kept, (name, value.encode())]


def sent(_: tuple[Any, ...], kwargs: dict[str, Any]) -> Sent:
    """Read a call that sends a message, and have it carry headers of ours next to its own."""
    topic = str(kwargs["topic"])
    given, headers = kwargs.get("headers") or (), None
    if isinstance(given, (Mapping, list, tuple)):  # else the client says what is wrong
        headers = HeaderPairs(given)
        kwargs["headers"] = headers.pairs
    return Sent(topic, headers, attributes=described(_SYSTEM, topic))


def taken(topic: str, headers: Pairs | None) -> Taken:
    """Return a message as it was taken, with the headers that carry a context."""
    carried = {
        name: value.decode("utf-8", "replace")
        for name, value in headers or ()
        if name in W3C and isinstance(value, bytes)
    }
    return Taken(f"process {topic}", carried, described(_SYSTEM, topic))
