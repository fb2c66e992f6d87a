"""The account of what was mended in one request."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum


class Mend(StrEnum):
    """The kinds of mending of a value."""

    TEXT = "text"  # a text that is no UTF-8, or has half of a character: U+FFFD stands there
    VALUE = "value"  # of another type, or beyond what its type holds: left out
    TORN = "torn"  # its lengths contradict each other: left out


@dataclass(slots=True)
class Mending:
    """The account of what was mended in one request."""

    values: Counter[Mend] = field(default_factory=Counter)
    lost_spans: int = 0  # at least: behind what is torn nothing can be counted
    resources: set[int] = field(default_factory=set)  # the places of those it was in

    @property
    def count(self) -> int:
        """Return how much was mended or lost."""
        return self.values.total() + self.lost_spans

    def clear(self) -> None:
        """Forget it all."""
        self.values.clear()
        self.resources.clear()
        self.lost_spans = 0
