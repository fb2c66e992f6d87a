"""Delivers batches to a receiver: with back-off, and with one message for each change."""

from collections.abc import Callable
from enum import Enum
from typing import Final

from latencytrace.agent.export.transport import Sender
from latencytrace.agent.guard import logger

_RETRIED: Final = frozenset({408, 429, 502, 503, 504})  # the OTLP specification's, and 408
_FIRST_BACK_OFF_S: Final = 0.5
_LONGEST_BACK_OFF_S: Final = 30.0


class SendResult(Enum):
    """Outcome of a delivery."""

    SENT = "sent"
    REFUSED = "refused"  # for good: it would be refused again
    LATER = "later"  # nobody takes it now


class Delivery:
    """Sends one body after another to one receiver; used by one thread.

    Args:
        sender: Carries the bytes.
        pause: Waits for so many seconds before a body is sent again; False: it must not.
        kept_spans: How many may wait meanwhile, for the message.
    """

    def __init__(self, sender: Sender, pause: Callable[[float], bool], kept_spans: int) -> None:
        self._sender = sender
        self._pause = pause
        self._kept_spans = kept_spans
        self._is_unreachable = False
        self._refusal: str | None = None  # the last that was logged
        self.last_error: str | None = None  # None once a body was taken

    def deliver(self, body: bytes, *, patient: bool) -> SendResult:
        """Send until somebody takes it, as long as `pause` allows; once only if not patient."""
        back_off_s = _FIRST_BACK_OFF_S
        while True:
            try:
                response = self._sender.send(body)
            except OSError as error:
                wait_s = back_off_s
                self._note_unreachable(str(error) or type(error).__name__)
            else:
                if 200 <= response.status < 300:  # noqa: PLR2004 - HTTP's successes
                    self._note_reached()
                    return SendResult.SENT
                self.last_error = f"{response.status} {response.reason}"
                if response.status not in _RETRIED:
                    self._note_refused(self.last_error)
                    return SendResult.REFUSED
                wait_s = response.retry_after_s or back_off_s
            if not (patient and self._pause(min(wait_s, _LONGEST_BACK_OFF_S))):
                return SendResult.LATER
            back_off_s = min(back_off_s * 2, _LONGEST_BACK_OFF_S)

    def close(self) -> None:
        """Let go of the connection."""
        self._sender.close()

    def reset_after_fork(self) -> None:
        """In a forked child: the connection and the last error are the parent's."""
        self._sender.close()
        self.last_error = None

    def _note_refused(self, error: str) -> None:
        if error != self._refusal:
            self._refusal = error
            logger.warning(
                "latencytrace: %s refused spans, which are lost: %s (logged once)",
                self._sender.url,
                error,
            )

    def _note_unreachable(self, error: str) -> None:
        self.last_error = error
        if not self._is_unreachable:
            self._is_unreachable = True
            logger.warning(
                "latencytrace: no receiver answers at %s (%s); up to %d spans are kept and sent "
                "once it does. Start one with `latencytrace serve`, or set "
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                self._sender.url,
                error,
                self._kept_spans,
            )

    def _note_reached(self) -> None:
        self.last_error = None
        if self._is_unreachable:
            self._is_unreachable = False
            logger.warning("latencytrace: the receiver at %s answers again", self._sender.url)
