"""Requests as points: when they started and how long they took."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import log2

import orjson
from markupsafe import Markup, escape

from latencytrace.model import RequestStatus
from latencytrace.model.texts.units import duration
from latencytrace.service.answers.documents import ListedRequestDocument
from latencytrace.service.answers.overview_documents import column_length_ns
from latencytrace.service.web.drawing.axes import BOTTOM, HEIGHT, LEFT, TOP, WIDTH, Axes, nothing
from latencytrace.service.web.drawing.bars import number
from latencytrace.service.web.drawing.releases import Release, release_lines

MOST_POINTS = 500
COLUMNS = 60  # of time, that can be selected
SECOND_NS = 10**9
LEAST_MARGIN_NS = 10 * SECOND_NS  # moments below the ground differ in their seconds


def scatter(
    requests: Sequence[ListedRequestDocument],
    slow_ns: float | None,
    address: Callable[[ListedRequestDocument], str],
    releases: Sequence[Release] = (),
) -> Markup:
    """A point a request, each a link; slow ones are triangles, failed ones squares.

    Args:
        requests: Without one, the picture says so.
        slow_ns: Beyond it a request is slow; None: that is not known.
        address: Of the page of a request.
        releases: Versions that began in this time.
    """
    shown = requests[:MOST_POINTS]
    if not shown:
        return nothing()
    starts = [int(one["start"]) for one in shown]
    lasted = [one["duration_ns"] for one in shown]
    margin_ns = max((max(starts) - min(starts)) // 50, LEAST_MARGIN_NS)
    axes = Axes(
        since_ns=(min(starts) - margin_ns) // SECOND_NS * SECOND_NS,
        until_ns=-(-(max(starts) + margin_ns) // SECOND_NS) * SECOND_NS,
        low=log2(max(min(lasted), 1)) - 0.5,
        high=log2(max(*lasted, 1)) + 0.5,
    )
    began = [one for one in releases if axes.since_ns < one.at_ns < axes.until_ns]
    points = "".join(_point(one, axes, slow_ns, address(one)) for one in shown)
    line = ""
    if slow_ns is not None and axes.low < log2(max(slow_ns, 1)) < axes.high:
        y = number(axes.y(slow_ns))
        line = (
            f'<path class="limit" d="M{LEFT} {y}H{WIDTH}"/><text class="axis" x="{LEFT + 4}" '
            f'y="{y}" dy="-4">p99 {escape(duration(slow_ns))}</text>'
        )
    return Markup(  # noqa: S704 - numbers and escaped text
        f'<svg class="chart scatter" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" '
        f'aria-label="{len(shown)} requests by start and duration" '
        f'data-scale="{escape(_scale(axes, starts))}">{axes.drawn()}{line}'
        f"{release_lines(began, axes.x, TOP, HEIGHT - BOTTOM, TOP + 8)}{points}"
        f'<rect class="brush" y="{TOP}" height="{HEIGHT - TOP - BOTTOM}" width="0"/></svg>'
    )


def _scale(axes: Axes, starts_ns: Sequence[int]) -> str:
    """The data of a script that selects a stretch of time and says how many started in it."""
    column_ns = column_length_ns(axes.since_ns, axes.until_ns, COLUMNS)
    counts = Counter((at_ns - axes.since_ns) // column_ns for at_ns in starts_ns)
    return orjson.dumps(
        {
            "left": axes.x(axes.since_ns),
            "column": axes.x(axes.since_ns + column_ns) - axes.x(axes.since_ns),
            "since": str(axes.since_ns),
            "until": str(axes.until_ns),
            "column_ns": str(column_ns),
            "columns": sorted(counts.items()),
        }
    ).decode()


def _point(one: ListedRequestDocument, axes: Axes, slow_ns: float | None, address: str) -> str:
    x, y = axes.x(int(one["start"])), axes.y(one["duration_ns"])
    failed = one["status"] != RequestStatus.OK
    slow = slow_ns is not None and one["duration_ns"] > slow_ns
    if failed:
        shape = f'<path class="failed" d="M{number(x - 4)} {number(y - 4)}h8v8h-8z"/>'
    elif slow:
        shape = f'<path class="slow" d="M{number(x - 6)} {number(y + 5)}h12l-6 -11z"/>'
    else:
        shape = f'<circle cx="{number(x)}" cy="{number(y)}" r="3.5"/>'
    text = f"{duration(one['duration_ns'])}, {one['status']}{', slow' if slow else ''}"
    return (
        f'<a href="{escape(address)}" tabindex="-1" aria-label="{escape(text)}">'
        f"<title>{escape(text)}</title>{shape}</a>"
    )
