"""Axes that pictures share: time to the right, duration upwards in powers of two."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from math import log2

from latencytrace.service.web.drawing.bars import number

WIDTH, HEIGHT = 900, 240
LEFT, TOP, BOTTOM = 64, 8, 22  # what axes take
TIMES = 6
FEW_DOUBLINGS = 9  # up to there is room for three lines a decade
_DAY_NS = 86_400 * 10**9
_FORMS = ((10**12, "%H:%M:%S"), (_DAY_NS + 1, "%H:%M"), (6 * _DAY_NS, "%d %b %H:%M"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """A ground on which moments and durations have places."""

    since_ns: int
    until_ns: int
    low: float  # logarithms to base 2 of nanoseconds
    high: float

    def x(self, at_ns: int) -> float:
        """The place of a moment."""
        return LEFT + (at_ns - self.since_ns) * (WIDTH - LEFT) / (self.until_ns - self.since_ns)

    def y(self, duration_ns: float) -> float:
        """The place of a duration."""
        return self.y_of(log2(max(duration_ns, 1)))

    def y_of(self, logarithm: float) -> float:
        """The place of the logarithm of a duration."""
        room = HEIGHT - TOP - BOTTOM
        return TOP + room * (self.high - logarithm) / ((self.high - self.low) or 1)

    def drawn(self) -> str:
        """Lines and their numbers, as elements of SVG."""
        return "".join(self._durations()) + self.times()

    def _durations(self) -> list[str]:
        heads = (1, 2, 5) if self.high - self.low < FEW_DOUBLINGS else (1,)
        lines = []
        for length_ns in (head * 10**power for power in range(13) for head in heads):
            if not self.low <= log2(length_ns) <= self.high:
                continue
            y = number(self.y(length_ns))
            lines.append(
                f'<path class="grid" d="M{LEFT} {y}H{WIDTH}"/>'
                f'<text class="axis" x="{LEFT - 6}" y="{y}" dy="4" text-anchor="end">'
                f"{_plain(length_ns)}</text>"
            )
        return lines

    def times(self) -> str:
        """Moments below the ground, as elements of SVG."""
        return moments(self.since_ns, self.until_ns, self.x, HEIGHT - 6)


def moments(since_ns: int, until_ns: int, x: Callable[[int], float], y: int) -> str:
    """Moments of a time below a picture of it, as elements of SVG.

    Args:
        since_ns: The first.
        until_ns: The end, which is not named.
        x: The place of a moment.
        y: The place of all of them.
    """
    whole = until_ns - since_ns
    form = next((form for longest, form in _FORMS if whole < longest), "%d %b")
    texts = []
    for place in range(TIMES):
        at_ns = since_ns + whole * place // TIMES
        shown = datetime.fromtimestamp(at_ns // 10**9, UTC).strftime(form)
        texts.append(f'<text class="axis" x="{number(x(at_ns))}" y="{y}">{shown}</text>')
    return "".join(texts)


def _plain(length_ns: int) -> str:
    """A round duration, without digits that say nothing: `200 ms`."""
    for unit, size_ns in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if length_ns >= size_ns:
            return f"{length_ns // size_ns} {unit}"
    return f"{length_ns} ns"
