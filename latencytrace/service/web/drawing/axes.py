"""Axes that pictures share: time to the right, duration upwards in powers of two."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import log2

from markupsafe import Markup

from latencytrace.model.objective import length_text
from latencytrace.service.web.drawing.bars import number

WIDTH, HEIGHT = 900, 240
LEFT, TOP, BOTTOM = 76, 8, 22  # what axes take; `1 h 30 min` has room on the left
TIMES = 6  # at most, on the axis of time
_HALF_TEXT = 38  # of the longest of them
NOTHING = "No request matches."
FEW_DOUBLINGS, FEWEST_DOUBLINGS = 9, 2  # up to there is room for three lines a decade; for ten
_SECOND_NS, _MINUTE_NS, _HOUR_NS = 10**9, 60 * 10**9, 3600 * 10**9
_DAY_NS = 24 * _HOUR_NS
_DECADES_S = 10  # up to which decades are round; then minutes are
_UNITS = (("s", _SECOND_NS), ("ms", 10**6), ("µs", 10**3), ("ns", 1))


def _round_ns(
    heads: Sequence[float], sixtieths: Sequence[float], hours: Sequence[float]
) -> tuple[int, ...]:
    """Round durations, ascending: decades up to ten seconds, then as clocks have them.

    Args:
        heads: Of each decade, also of days.
        sixtieths: Minutes; those from ten on are seconds, too.
        hours: Below a day.
    """
    decades = [head * 10**power for power in range(10) for head in heads]
    found = [
        *(one for one in decades if one < _DECADES_S * _SECOND_NS),
        *(one * _SECOND_NS for one in sixtieths if one >= _DECADES_S),
        *(one * _MINUTE_NS for one in sixtieths),
        *(one * _HOUR_NS for one in hours),
        *(one * _DAY_NS for one in decades if one < 10**5 and one * 24 % 1 == 0),
    ]
    return tuple(int(one) for one in found if one % 1 == 0)


FAR_NS = _round_ns((1,), (1, 10), (1,))
ROUND_NS = _round_ns((1, 2, 5), (1, 2, 5, 10, 20, 30), (1, 2, 3, 6, 12))
CLOSE_NS = _round_ns(
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8),
    (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50),
    (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20),
)


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
        doublings = self.high - self.low
        found = FAR_NS if doublings >= FEW_DOUBLINGS else ROUND_NS
        lines = []
        for length_ns in CLOSE_NS if doublings < FEWEST_DOUBLINGS else found:
            if not self.low <= log2(length_ns) <= self.high:
                continue
            y = number(self.y(length_ns))
            lines.append(
                f'<path class="grid" d="M{LEFT} {y}H{WIDTH}"/>'
                f'<text class="axis" x="{LEFT - 6}" y="{y}" dy="4" text-anchor="end">'
                f"{plain(length_ns)}</text>"
            )
        return lines

    def times(self) -> str:
        """Moments below the ground, as elements of SVG."""
        return moments(self.since_ns, self.until_ns, self.x, HEIGHT - 6)


def moments(since_ns: int, until_ns: int, x: Callable[[int], float], y: int) -> str:
    """Round moments of a time below a picture of it, as elements of SVG.

    Args:
        y: The place of all of them.
    """
    whole_ns = until_ns - since_ns
    steps = (one for one in ROUND_NS if one >= _SECOND_NS and one * TIMES >= whole_ns)
    step_ns = next(steps, whole_ns)
    first_ns = -(-since_ns // step_ns) * step_ns
    round_ns = [*range(first_ns, until_ns, step_ns)] or [since_ns]
    form = "%H:%M" if step_ns % _MINUTE_NS == 0 else "%H:%M:%S"
    if whole_ns > _DAY_NS:
        form = "%d %b" if step_ns % _DAY_NS == 0 else f"%d %b {form}"
    texts = []
    for at_ns in round_ns:
        shown = datetime.fromtimestamp(at_ns // _SECOND_NS, UTC).strftime(form)
        if at_ns == round_ns[-1]:  # which a phone shows first
            shown += " UTC"
        place = min(x(at_ns), WIDTH - _HALF_TEXT)
        texts.append(
            f'<text class="axis" x="{number(place)}" y="{y}" text-anchor="middle">{shown}</text>'
        )
    return "".join(texts)


def plain(length_ns: int) -> str:
    """A round duration, without digits that say nothing: `200 ms`, `1.5 s`, `1 h 30 min`."""
    if length_ns >= _MINUTE_NS:
        return length_text(length_ns)
    unit, size_ns = next(one for one in _UNITS if length_ns >= one[1])
    return f"{length_ns / size_ns:g} {unit}"


def nothing() -> Markup:
    """The picture of no request, as large as others over time: a file of it is one, too."""
    return Markup(  # noqa: S704 - numbers and our own text
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{NOTHING}">'
        f'<text class="axis" x="{WIDTH // 2}" y="{HEIGHT // 2}" text-anchor="middle">{NOTHING}'
        "</text></svg>"
    )
