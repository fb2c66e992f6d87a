"""What an exporter needs of whatever carries its bytes to a receiver."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver said to one post."""

    status: int  # HTTP's, or the one that HTTP has for the same
    reason: str
    retry_after_s: float | None


class Sender(Protocol):
    """Carries the bytes of OTLP requests to one address."""

    @property
    def url(self) -> str:
        """The address."""
        ...

    def post(self, body: bytes, timeout_s: float | None = None) -> Answer:
        """Send one request and wait for its answer.

        Raises:
            OSError: Nobody answered.
        """
        ...

    def close(self) -> None:
        """Let go of the connection, without a word: it may be that of a process forked from."""
        ...
