"""Durations over time: how many requests took about as long."""

from collections import defaultdict
from collections.abc import Sequence
from math import log, log2

import orjson
from markupsafe import Markup, escape

from latencytrace.model.cohorts.overview import ROWS_PER_DOUBLING
from latencytrace.service.answers.overview_documents import HeatMapDocument
from latencytrace.service.web.drawing.axes import BOTTOM, HEIGHT, TOP, WIDTH, Axes, nothing
from latencytrace.service.web.drawing.bars import number
from latencytrace.service.web.drawing.releases import Release, release_lines

LEVELS = 9
SMALL_WIDTH, SMALL_HEIGHT = 360, 72


def heat_map(document: HeatMapDocument, releases: Sequence[Release] = ()) -> Markup:
    """A picture of cells, one path for each level of colour; scripts read the cells beside it.

    Without a cell, the picture says so.
    """
    cells = document["cells"]
    if not cells:
        return nothing()
    rows = [cell["row"] for cell in cells]
    since_ns, column_ns = int(document["since"]), document["column_ns"]
    axes = Axes(
        since_ns=since_ns,
        until_ns=max(int(document["until"]), since_ns + column_ns),
        low=min(rows) / ROWS_PER_DOUBLING - 0.25,
        high=(max(rows) + 1) / ROWS_PER_DOUBLING + 0.25,
    )
    most = max(cell["requests"] for cell in cells)
    levels: dict[int, list[str]] = defaultdict(list)
    for cell in cells:
        left, right = (axes.x(int(cell[edge])) for edge in ("since", "until"))
        top, bottom = (axes.y_of((cell["row"] + edge) / ROWS_PER_DOUBLING) for edge in (1, 0))
        levels[level(cell["requests"], most)].append(
            f"M{number(left)} {number(top)}H{number(right)}V{number(bottom)}H{number(left)}z"
        )
    paths = "".join(f'<path class="h{step}" d="{"".join(d)}"/>' for step, d in levels.items())
    label = f"{sum(cell['requests'] for cell in cells):,} requests by start and duration"
    return Markup(  # noqa: S704 - numbers and escaped text
        f'<svg class="chart heat" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(label)}" data-scale="{escape(_scale(axes, document))}">'
        f"{axes.drawn()}{paths}{release_lines(releases, axes.x, TOP, HEIGHT - BOTTOM, TOP + 8)}"
        '<rect class="brush" width="0" height="0"/></svg>'
    )


def small_heat_map(document: HeatMapDocument, since_ns: int, at_least_ns: int | None) -> Markup:
    """A picture of an incident: cells without axes, and a frame around what is bad.

    Args:
        at_least_ns: The shortest bad duration; None: all that came then is bad.
    """
    cells = document["cells"]
    if not cells:
        return nothing()
    first_ns, until_ns = int(document["since"]), int(document["until"])
    low = min(cell["row"] for cell in cells)
    high = max(cell["row"] for cell in cells) + 1
    height = SMALL_HEIGHT / (high - low)
    most = max(cell["requests"] for cell in cells)
    levels: dict[int, list[str]] = defaultdict(list)

    def x(at_ns: int) -> float:
        return max(0.0, min(1.0, (at_ns - first_ns) / max(until_ns - first_ns, 1))) * SMALL_WIDTH

    def y(row: float) -> float:
        return (high - row) * height

    for cell in cells:
        left, right = (x(int(cell[edge])) for edge in ("since", "until"))
        top, bottom = y(cell["row"] + 1), y(cell["row"])
        levels[level(cell["requests"], most)].append(
            f"M{number(left)} {number(top)}H{number(right)}V{number(bottom)}H{number(left)}z"
        )
    paths = "".join(f'<path class="h{step}" d="{"".join(d)}"/>' for step, d in levels.items())
    row = log2(max(at_least_ns, 1)) * ROWS_PER_DOUBLING if at_least_ns else low
    edge = y(min(max(row, low), high))
    return Markup(  # noqa: S704 - numbers
        f'<svg class="small heat" viewBox="0 0 {SMALL_WIDTH} {SMALL_HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label="Requests by start and duration; '
        f'framed: since it began">{paths}<rect class="patch" x="{number(x(since_ns))}" '
        f'width="{number(SMALL_WIDTH - x(since_ns))}" height="{number(edge)}"/></svg>'
    )


def level(requests: int, most: int) -> int:
    """The step of colour of a cell, from 1: in logarithms, for few slow ones must be seen."""
    if most <= 1:
        return LEVELS
    return 1 + min(LEVELS - 1, int((LEVELS - 1) * log(requests) / log(most)))


def _scale(axes: Axes, document: HeatMapDocument) -> str:
    """The data of a script that finds the cell below a pointer."""
    return orjson.dumps(
        {
            "left": axes.x(axes.since_ns),
            "column": axes.x(axes.since_ns + document["column_ns"]) - axes.x(axes.since_ns),
            "zero": axes.y_of(0),
            "row": axes.y_of(0) - axes.y_of(1 / ROWS_PER_DOUBLING),
            "since": document["since"],
            "until": str(axes.until_ns),
            "column_ns": str(document["column_ns"]),
            "per_doubling": ROWS_PER_DOUBLING,
            "cells": [
                [cell["column"], cell["row"], cell["requests"]] for cell in document["cells"]
            ],
        }
    ).decode()
