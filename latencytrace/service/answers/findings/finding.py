"""Findings of the doctor, one fact each, and the samples of metrics that they read."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Verdict(StrEnum):
    """The judgement of a finding."""

    FINE = "fine"
    NOTE = "note"  # worth knowing; nothing to mend
    WRONG = "wrong"  # the exit code says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Args:
        what: One line: what is so.
        fix: One line to type or to set; None where there is nothing to mend.
    """

    about: str
    verdict: Verdict
    what: str
    fix: str | None = None

    @classmethod
    def fine(cls, about: str, what: str) -> Self:
        return cls(about=about, verdict=Verdict.FINE, what=what)

    @classmethod
    def note(cls, about: str, what: str, fix: str | None = None) -> Self:
        return cls(about=about, verdict=Verdict.NOTE, what=what, fix=fix)

    @classmethod
    def wrong(cls, about: str, what: str, fix: str | None = None) -> Self:
        return cls(about=about, verdict=Verdict.WRONG, what=what, fix=fix)


_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One line: a name, its labels and its value."""

    name: str
    labels: Mapping[str, str]
    value: float


def samples(text: str) -> Iterator[Sample]:
    """Every sample, in order."""
    for line in text.splitlines():
        match = None if line.startswith("#") else _SAMPLE.match(line)
        if match is not None:
            labels = {
                name: _ESCAPED.sub(lambda escaped: escaped[1].replace("n", "\n"), value)
                for name, value in _LABEL.findall(match["labels"] or "")
            }
            yield Sample(name=match["name"], labels=labels, value=float(match["value"]))
