"""The contract of a sink: a place that alerts are sent to."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self

from latencytrace.service.answers.documents import AlertDocument


class Transition(StrEnum):
    """What became of an alert."""

    BEGAN = "began"
    CONTINUES = "continues"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An alert to be sent to one sink, at least once."""

    key: str  # the same however often it is sent: an idempotency key
    sink: str
    transition: Transition
    alert: AlertDocument
    due_ns: int  # not before this moment

    @property
    def about(self) -> str:
        """Which alert: its labels. Notices about one alert are sent in order."""
        return "\0".join(f"{name}={self.alert['labels'][name]}" for name in self.alert["labels"])


class Sink(Protocol):
    """Sends one notice at a time; it runs in a thread of its own and may wait.

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
            SettingsError: It needs another address.
        """
        ...

    def send(self, notice: Notice, now_ns: int) -> None:
        """Send a notice.

        Args:
            notice: What to send; its times are the evaluator's, which never goes back.
            now_ns: The time of day as others have it.

        Raises:
            SinkError: It was not taken; it is sent again later. The message names the host
                at most: addresses hold secrets.
        """
        ...
