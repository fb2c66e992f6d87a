"""Outcomes of requests as the client saw them, by its own monotonic clock."""

from dataclasses import dataclass
from itertools import pairwise

from latencytrace.cli.load_test.answer import Answer

TIMEOUT = "timeout"
NEVER_SENT = "never sent"  # too many were in flight until its time was up
CUT_SHORT = frozenset({TIMEOUT, NEVER_SENT})  # slow, and slower than their duration says


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One request that was due, whatever became of it; times are monotonic."""

    trace_id: str | None  # None: it carried no trace context
    span_id: str | None
    warm_up: bool
    held_back: bool  # it waited for another one to end, for too many were in flight
    due_ns: int
    sent_ns: int | None  # when it was handed to the HTTP client
    first_byte_ns: int | None  # when the answer's head was there
    end_ns: int  # of the last byte, or when it was given up
    status: int | None
    error: str | None  # None: answered to the end, and with success
    answer: Answer | None

    @property
    def duration_ns(self) -> int:
        """End to end, from when the request was due."""
        return self.end_ns - self.due_ns

    @property
    def late_ns(self) -> int | None:
        """The lateness with which the generator sent it."""
        return None if self.sent_ns is None else self.sent_ns - self.due_ns

    @property
    def time_to_first_byte_ns(self) -> int | None:
        """From when the request was due to the head of its answer."""
        return None if self.first_byte_ns is None else self.first_byte_ns - self.due_ns

    @property
    def time_to_first_token_ns(self) -> int | None:
        """From when the request was due to the first event or chunk with content."""
        if self.answer is None or not self.answer.token_times_ns:
            return None
        return self.answer.token_times_ns[0] - self.due_ns

    @property
    def tokens(self) -> int | None:
        """Of the answer."""
        return None if self.answer is None else self.answer.tokens

    @property
    def time_per_output_token_ns(self) -> int | None:
        """From the first token to the last one, over the tokens after the first."""
        if self.answer is None or len(self.answer.token_times_ns) < 2:  # noqa: PLR2004 - first and last
            return None
        followers = (self.answer.tokens or 0) - 1
        times_ns = self.answer.token_times_ns
        return round((times_ns[-1] - times_ns[0]) / followers) if followers > 0 else None

    @property
    def token_gaps_ns(self) -> tuple[int, ...]:
        """Between each event or chunk with content and the next."""
        if self.answer is None:
            return ()
        times_ns = self.answer.token_times_ns
        return tuple(after - before for before, after in pairwise(times_ns))
