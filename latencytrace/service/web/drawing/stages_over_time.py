"""Stages over time: a column for each stretch of time that has requests, its stages stacked."""

from collections import defaultdict
from collections.abc import Sequence

import orjson
from markupsafe import Markup, escape

from latencytrace.model import Stage
from latencytrace.model.texts.units import duration
from latencytrace.service.answers.breakdown_parts import (
    StageColumnDocument,
    StagesOverTimeDocument,
)
from latencytrace.service.web.drawing.axes import (
    BOTTOM,
    HEIGHT,
    LEFT,
    ROUND_NS,
    TOP,
    WIDTH,
    Axes,
    plain,
)
from latencytrace.service.web.drawing.bars import in_order, number
from latencytrace.service.web.drawing.releases import Release, release_lines

LINES = 4  # of the grid, at most


def stages_over_time(document: StagesOverTimeDocument, releases: Sequence[Release] = ()) -> Markup:
    """A picture with one path for each stage; a script reads the columns beside it."""
    since_ns, column_ns = int(document["since"]), document["column_ns"]
    columns = document["columns"]
    axes = Axes(
        since_ns=since_ns,
        until_ns=max(int(document["until"]), since_ns + column_ns),
        low=0,
        high=0,
    )
    most_ns = max((column["mean_ns"] for column in columns), default=0) or 1
    paths = "".join(
        f'<path class="s-{stage}" d="{path}"/>'
        for stage, path in _paths(axes, columns, most_ns).items()
    )
    label = f"Mean time per stage over time, at most {duration(most_ns)}"
    return Markup(  # noqa: S704 - numbers, names of stages and escaped text
        f'<svg class="chart timeline" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(label)}" data-scale="{escape(_scale(axes, document))}">'
        f"{_grid(most_ns)}{axes.times()}{paths}"
        f"{release_lines(releases, axes.x, TOP, HEIGHT - BOTTOM, TOP + 8)}"
        f'<rect class="brush" y="{TOP}" height="{HEIGHT - TOP - BOTTOM}" width="0"/></svg>'
    )


def _paths(axes: Axes, columns: Sequence[StageColumnDocument], most_ns: int) -> dict[Stage, str]:
    """By stage, in their order: a box in each column, above those of the stages before."""
    boxes: dict[Stage, list[str]] = defaultdict(list)
    for column in columns:
        left, right = (axes.x(int(column[edge])) for edge in ("since", "until"))
        below_ns = 0
        for stage, mean_ns in in_order(column["stages"]):
            bottom, top = (_y(value, most_ns) for value in (below_ns, below_ns + mean_ns))
            below_ns += mean_ns
            boxes[stage].append(
                f"M{number(left)} {number(bottom)}V{number(top)}H{number(right)}V{number(bottom)}z"
            )
    return {stage: "".join(boxes[stage]) for stage in Stage if stage in boxes}


def _y(length_ns: float, most_ns: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * length_ns / most_ns


def _grid(most_ns: int) -> str:
    """Lines at round durations, from zero on."""
    step = next(one for one in ROUND_NS if most_ns / one <= LINES + 1)
    lines = []
    for place in range(most_ns // step + 1):
        y = number(_y(place * step, most_ns))
        text = plain(place * step) if place else "0"
        lines.append(
            f'<path class="grid" d="M{LEFT} {y}H{WIDTH}"/>'
            f'<text class="axis" x="{LEFT - 6}" y="{y}" dy="4" text-anchor="end">{text}</text>'
        )
    return "".join(lines)


def _scale(axes: Axes, document: StagesOverTimeDocument) -> str:
    """The data of a script that finds the column below a pointer and says what is in it."""
    column_ns = document["column_ns"]
    since_ns = int(document["since"])
    return orjson.dumps(
        {
            "left": axes.x(since_ns),
            "column": axes.x(since_ns + column_ns) - axes.x(since_ns),
            "since": document["since"],
            "until": str(axes.until_ns),
            "column_ns": str(column_ns),
            "columns": [
                [
                    (int(column["since"]) - since_ns) // column_ns,
                    column["requests"],
                    duration(column["mean_ns"]),
                    _largest(column),
                ]
                for column in document["columns"]
            ],
        }
    ).decode()


def _largest(column: StageColumnDocument) -> str:
    ranked = sorted(column["stages"].items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{stage} {duration(mean_ns)}" for stage, mean_ns in ranked)
