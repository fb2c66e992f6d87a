"""Findings of the doctor: one fact, how it is judged, and the line that mends it."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The judgement of a finding."""

    FINE = "fine"
    NOTE = "note"  # worth knowing; nothing to mend
    WRONG = "wrong"  # the exit code says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Args:
        about: The heading it belongs under.
        verdict: How it is judged.
        what: One line: what is so.
        fix: One line to type or to set; None where there is nothing to mend.
    """

    about: str
    verdict: Verdict
    what: str
    fix: str | None = None
