"""Reads the samples out of Prometheus' text format, as far as our own service writes it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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
