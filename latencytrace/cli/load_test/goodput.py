"""Limits that answers shall meet, and how many requests a second meet them all (goodput).

Source: Zhong et al., "DistServe: Disaggregating Prefill and Decoding for Goodput-optimized Large
Language Model Serving", OSDI 2024.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from latencytrace.cli.load_test.outcome import Outcome
from latencytrace.errors import SettingsError
from latencytrace.model.texts.units import duration, written_duration_ns


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
        """The limits in words."""
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
