"""The contract of a sink: a place that alerts are sent to."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self

from latencytrace.service.answers.documents import AlertDocument


class Transition(StrEnum):
    """A change of an alert."""

    BEGAN = "began"
    CONTINUES = "continues"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """An alert to be sent to one sink, at least once."""

    key: str  # the same however often it is sent: an idempotency key
    sink: str
    transition: Transition
    alert: AlertDocument
    due_ns: int  # not before this moment

    @property
    def about(self) -> str:
        """The alert's labels. Notifications about one alert are sent in order."""
        return "\0".join(f"{name}={self.alert['labels'][name]}" for name in self.alert["labels"])


class Sink(Protocol):
    """Sends one notification at a time; it runs in a thread of its own and may wait.

    Attributes:
        repeat_s: How often an alert that fires is sent again; None: it is not.
        ends: How often the end of an alert is sent, a minute apart: more than once where
            the receiver forgets, and would not know what it should have ended.
    """

    repeat_s: float | None
    ends: int

    @classmethod
    def open(cls, address: str) -> Self:
        """A sink for an address, which is empty where none is given.

        Raises:
            SettingsError: The address is not one of this sink.
        """
        ...

    def send(self, notification: Notification, now_ns: int, /) -> None:
        """Send a notification.

        Args:
            notification: What to send; its times are the evaluator's, which never goes back.
            now_ns: The time of day as others have it.

        Raises:
            SinkError: It was not taken; it is sent again later. The message names the host
                at most: addresses hold secrets.
        """
        ...
