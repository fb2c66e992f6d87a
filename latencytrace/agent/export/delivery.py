"""Delivers batches to a receiver: with back-off, and with one message for each change."""

from collections.abc import Callable
from enum import Enum
from typing import Final

from latencytrace.agent.export.transport import PartialSuccess, Sender
from latencytrace.agent.guard import logger
from latencytrace.agent.spans.tracer import random_bits

_RETRIED: Final = frozenset({408, 429, 502, 503, 504})  # the OTLP specification's, and 408
_FIRST_BACK_OFF_S: Final = 0.5
_LONGEST_BACK_OFF_S: Final = 30.0


_JITTER: Final = 0.2  # of a back-off, up or down
_DRAWN_BITS: Final = 32


def _drawn() -> float:
    """Draw from our own generator: a program that seeds Python's would draw others."""
    return random_bits(_DRAWN_BITS) / (1 << _DRAWN_BITS)


class SendResult(Enum):
    """Outcome of a delivery."""

    SENT = "sent"
    PARTLY = "partly"  # sent, and some of it refused for good
    REFUSED = "refused"  # for good: it would be refused again
    LATER = "later"  # no receiver takes it now


class Delivery:
    """Sends one body after another to one receiver; used by one thread.

    Args:
        pause: Waits for so many seconds before a body is sent again; False: it must not.
        kept_spans: How many may wait meanwhile, for the message.
        draw: Draws a number from 0 to 1, so that many senders do not come back at once.
    """

    def __init__(
        self,
        sender: Sender,
        pause: Callable[[float], bool],
        kept_spans: int,
        draw: Callable[[], float] = _drawn,
    ) -> None:
        self._sender = sender
        self._pause = pause
        self._kept_spans = kept_spans
        self._is_unreachable = False
        self._draw = draw
        self._refusal: str | None = None  # the last that was logged
        self._has_reported = False  # what a receiver said of spans that it left out
        self.rejected = 0  # spans of the last body that was sent
        self.last_error: str | None = None  # None once a body was taken

    def deliver(self, body: bytes, *, patient: bool) -> SendResult:
        """Send until a receiver takes it, as long as `pause` allows; once only if not patient."""
        back_off_s = _FIRST_BACK_OFF_S
        while True:
            try:
                response = self._sender.send(body)
            except OSError as error:
                wait_s = self._spread(back_off_s)
                self._note_unreachable(str(error) or type(error).__name__)
            else:
                if 200 <= response.status < 300:  # noqa: PLR2004 - HTTP's successes
                    self._note_reached()
                    return self._taken(response.partial)
                self.last_error = f"{response.status} {response.reason}"
                if response.status not in _RETRIED:
                    self._note_refused(self.last_error)
                    return SendResult.REFUSED
                wait_s = response.retry_after_s or self._spread(back_off_s)
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

    def _spread(self, back_off_s: float) -> float:
        return back_off_s * (1 + _JITTER * (2 * self._draw() - 1))

    def _taken(self, partial: PartialSuccess) -> SendResult:
        """Note what a receiver left out of a body that it took."""
        self.rejected = max(partial.rejected, 0)
        if (self.rejected or partial.message) and not self._has_reported:
            self._has_reported = True
            logger.warning(
                "latencytrace: %s took spans, and left %d of a post out: %s (logged once)",
                self._sender.url,
                self.rejected,
                partial.message or "it does not say why",
            )
        return SendResult.PARTLY if self.rejected else SendResult.SENT

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
