"""Outcomes of requests as the client saw them, by its own monotonic clock; limits and the record.

Source: Zhong et al., "DistServe: Disaggregating Prefill and Decoding for Goodput-optimized Large
Language Model Serving", OSDI 2024 (goodput).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from latencytrace.cli.load_test.answer import Answer
from latencytrace.errors import SettingsError
from latencytrace.model.texts.units import duration, written_duration_ns

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long each may take; None: as long as it likes."""

    duration_ns: int | None = None
    time_to_first_token_ns: int | None = None
    time_per_output_token_ns: int | None = None

    @property
    def are_set(self) -> bool:
        """Return whether there is any."""
        return any(True for _ in self._each())

    def are_met(self, outcome: Outcome) -> bool:
        """Return whether a request was answered in time; what it has nothing of is in time."""
        return outcome.error is None and all(
            taken_ns is None or taken_ns <= limit_ns
            for taken_ns, limit_ns in (
                (getattr(outcome, f"{name}_ns"), limit_ns) for name, limit_ns in self._each()
            )
        )

    def text(self) -> str:
        return ", ".join(
            f"{name.replace('_', ' ')} within {duration(limit_ns)}"
            for name, limit_ns in self._each()
        )

    def _each(self) -> Iterator[tuple[str, int]]:
        for name in ("duration", "time_to_first_token", "time_per_output_token"):
            limit_ns: int | None = getattr(self, f"{name}_ns")
            if limit_ns is not None:
                yield name, limit_ns


NO_LIMITS = Limits()


def limits(
    within: str | None, first_token_within: str | None, per_token_within: str | None
) -> Limits:
    """Read the limits that were named.

    Raises:
        SettingsError: One is no duration.
    """
    return Limits(
        duration_ns=_read(within, "--within"),
        time_to_first_token_ns=_read(first_token_within, "--first-token-within"),
        time_per_output_token_ns=_read(per_token_within, "--per-token-within"),
    )


def _read(text: str | None, flag: str) -> int | None:
    if text is None:
        return None
    found_ns = written_duration_ns(text)
    if found_ns is None:
        raise SettingsError(f"{text!r} is no duration: write {flag} 2s, or 250ms")
    return found_ns
