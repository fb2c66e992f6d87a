"""Differences with their intervals, as bars on one scale."""

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup, escape

from latencytrace.service.web.drawing.bars import number

WIDTH, HEIGHT = 1000, 20  # of a bar, which is stretched to its place
THICK = 10
EDGE = 12  # so that no end lies on the rim


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The differences that stand between the left and the right rim."""

    low: float
    high: float

    @classmethod
    def of(cls, ends: Iterable[float]) -> "Scale":
        """A scale on which zero and all of these have places."""
        every = [0.0, *ends]
        return cls(low=min(every), high=max(every))

    def x(self, value: float) -> float:
        """The place of a difference."""
        return EDGE + (WIDTH - 2 * EDGE) * (value - self.low) / ((self.high - self.low) or 1.0)

    def drawn(self, value: float, low: float | None, high: float | None, kind: str) -> Markup:
        """A difference from zero on, and its interval; the numbers stand beside it.

        Args:
            low: The lower end of its interval; None: unknown.
            kind: The class that gives it its colour.
        """
        zero, end = self.x(0), self.x(value)
        left, top = min(zero, end), (HEIGHT - THICK) // 2
        ends = ""
        if low is not None and high is not None:
            from_x, to_x = number(self.x(low)), number(self.x(high))
            ends = f'<path class="ends" d="M{from_x} 4v12M{from_x} 10H{to_x}M{to_x} 4v12"/>'
        return Markup(  # noqa: S704 - numbers and escaped text
            f'<svg class="interval {escape(kind)}" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'preserveAspectRatio="none" aria-hidden="true">'
            f'<rect x="{number(left)}" y="{top}" width="{number(max(abs(end - zero), 1))}" '
            f'height="{THICK}"/><path class="zero" d="M{number(zero)} 0v{HEIGHT}"/>'
            f"{ends}</svg>"
        )
