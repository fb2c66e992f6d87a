"""A budget over its period, and the burn rates of a tier with their threshold."""

from collections.abc import Callable, Iterator, Sequence
from math import ceil, floor, log10

from markupsafe import Markup, escape

from latencytrace.model.texts.units import share, target, times
from latencytrace.service.alerting.over_time import (
    ObjectiveOverTimeDocument,
    TierOverTimeDocument,
)
from latencytrace.service.web.drawing.axes import moments
from latencytrace.service.web.drawing.bars import number
from latencytrace.service.web.drawing.releases import Release, release_lines

WIDTH, HEIGHT = 900, 170
LEFT, RIGHT, TOP, BOTTOM = 64, 10, 8, 22
MOST_LINES = 6  # of the grid
BURN_WIDTH, BURN_HEIGHT = 260, 40
BEYOND = 1.4  # of a threshold: where the scale of burn rates ends, at least

Point = tuple[float, float]


def budget_line(
    document: ObjectiveOverTimeDocument,
    alerts: Sequence[tuple[int, int | None]],
    releases: Sequence[Release] = (),
) -> Markup:
    """The budget that was left, beside that of an even burn; alerts are marked.

    Args:
        document: An objective that has a budget.
        alerts: When each began and ended; None: it fires.
        releases: Versions that began in this time.
    """
    since_ns, until_ns = int(document["since"]), int(document["until"])
    known = [
        (int(one["at"]), one["budget_left_ratio"])
        for one in document["budget"]
        if one["budget_left_ratio"] is not None
    ]
    lowest = min([0.0, *(left for _, left in known)])

    def x(at_ns: int) -> float:
        inside = min(max(at_ns, since_ns), until_ns) - since_ns
        return LEFT + (WIDTH - LEFT - RIGHT) * inside / max(until_ns - since_ns, 1)

    def y(ratio: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - ratio) / (1 - lowest)

    now_ns = int(document["budget"][-1]["at"])
    marked = "".join(
        f'<rect class="incident" x="{number(x(began))}" y="{TOP}" '
        f'width="{number(max(x(ended or now_ns) - x(began), 2))}" '
        f'height="{HEIGHT - TOP - BOTTOM}"/>'
        for began, ended in alerts
        if (ended or now_ns) >= since_ns
    )
    overdrawn = (
        f'<rect class="overdrawn" x="{LEFT}" y="{number(y(0))}" width="{WIDTH - LEFT - RIGHT}" '
        f'height="{number(y(lowest) - y(0))}"/>'
        if lowest < 0
        else ""
    )
    passed = (until_ns - since_ns) / document["period_ns"]
    line = _line([(x(at_ns), y(left)) for at_ns, left in known])
    role = "group" if releases else "img"
    label = f"Budget left over the period: {share(known[-1][1]) if known else 'unknown'} now"
    return Markup(  # noqa: S704 - numbers and escaped text
        f'<svg class="chart budget" viewBox="0 0 {WIDTH} {HEIGHT}" role="{role}" '
        f'aria-label="{escape(label)}">{overdrawn}{"".join(_grid(lowest, y))}{marked}'
        f'<path class="even" d="M{LEFT} {number(y(1))}L{WIDTH - RIGHT} {number(y(1 - passed))}"/>'
        f'<path class="line" d="{line}"/>'
        f"{moments(since_ns, until_ns, x, HEIGHT - 6)}"
        # The line begins at the top.
        f"{release_lines(releases, x, TOP, HEIGHT - BOTTOM, HEIGHT - BOTTOM - 6)}</svg>"
    )


def burn_lines(document: TierOverTimeDocument) -> Markup:
    """The burn rates of the long and the short window, and the threshold as a dashed line."""
    points = document["points"]
    factor = document["factor"]
    found = [(one["long"], one["short"]) for one in points]
    most = max([factor * BEYOND, *(value for pair in found for value in pair if value)])

    def y(rate: float) -> float:
        return BURN_HEIGHT - 2 - (BURN_HEIGHT - 4) * rate / most

    step = BURN_WIDTH / max(len(points) - 1, 1)
    short, long = (
        "".join(
            map(_line, _runs([(place * step, pair[which]) for place, pair in enumerate(found)], y))
        )
        for which in (1, 0)
    )
    label = f"Burn rates of both windows over time; the threshold is {times(factor)}"
    return Markup(  # noqa: S704 - numbers and escaped text
        f'<svg class="burning" viewBox="0 0 {BURN_WIDTH} {BURN_HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
        f'<path class="ground" d="M0 {BURN_HEIGHT - 2}H{BURN_WIDTH}"/>'
        f'<path class="short" d="{short}"/><path class="long" d="{long}"/>'
        f'<path class="limit" d="M0 {number(y(factor))}H{BURN_WIDTH}"/></svg>'
    )


def _runs(
    points: Sequence[tuple[float, float | None]], y: Callable[[float], float]
) -> Iterator[list[Point]]:
    """Points between gaps."""
    run: list[Point] = []
    for x, value in points:
        if value is None:
            yield run
            run = []
        else:
            run.append((x, y(value)))
    yield run


def _line(points: Sequence[Point]) -> str:
    """A line through points; one alone is a dot's width of it."""
    if not points:
        return ""
    (x, y), *others = points
    rest = "".join(f"L{number(at)} {number(height)}" for at, height in others) or "h1"
    return f"M{number(x)} {number(y)}{rest}"


def _grid(lowest: float, y: Callable[[float], float]) -> Iterator[str]:
    """Lines at round shares, zero among them."""
    step = 10.0 ** floor(log10((1 - lowest) / MOST_LINES))
    step = next(
        one * step for one in (1, 2, 2.5, 5, 10) if (1 - lowest) / (one * step) <= MOST_LINES
    )
    for place in range(ceil(lowest / step), floor(1 / step) + 1):
        ratio = place * step
        at = number(y(ratio))
        kind = "zero" if place == 0 else "grid"
        yield (
            f'<path class="{kind}" d="M{LEFT} {at}H{WIDTH - RIGHT}"/>'
            f'<text class="axis" x="{LEFT - 6}" y="{at}" dy="4" text-anchor="end">'
            f"{target(ratio)}</text>"
        )
