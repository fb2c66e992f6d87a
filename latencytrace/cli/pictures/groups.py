"""A cohort by the values of a label or an attribute, a row each, as the terminal shows it."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from rich.console import Console, RenderableType
from rich.text import Text

from latencytrace.cli.pictures.fitted_table import FAILED, FittedTable, legend, stacked_bar
from latencytrace.model.texts.escaped import escaped
from latencytrace.model.texts.units import count, duration, share

if TYPE_CHECKING:  # its parts are an extra
    from latencytrace.service.answers.groups import GroupsDocument, SummaryDocument
    from latencytrace.service.answers.overview_documents import TimeColumnDocument

HEIGHTS: Final = "▁▂▃▄▅▆▇█"
SPARK_CELLS: Final = 15
BAR_SHORTEST, BAR_LONGEST = 8, 32
OVER_TIME, BARS, MOST = "p99 over time", "time by stage", "most time"
EMPTY: Final = '""'  # a value without any character


def group_rows(found: "GroupsDocument") -> "Iterator[tuple[str, SummaryDocument, bool]]":
    """The parts of a cohort: what each is called, what it holds, and whether it is a value."""
    for one in found["groups"]:
        yield one["value"] or EMPTY, one, True
    if found["others"]:
        yield count(found["other_values"], "other value"), found["others"], False
    if found["without"]:
        yield f"no {found['by']}", found["without"], False


def picture(found: "GroupsDocument", console: Console) -> list[RenderableType]:
    """A row a value; there is at least one request."""
    length_ns = int(found["until"]) - int(found["since"])
    columns = max(-(-length_ns // found["column_ns"]), 1)
    coloured = console.color_system is not None
    stages = BARS if coloured else MOST
    drawn = FittedTable(
        *(found["by"], "requests", "share", "errors", "p50", "p95", "p99", stages, OVER_TIME),
        left=(found["by"], stages, OVER_TIME),
        name=found["by"],
        leave_out=("p95", OVER_TIME, "share", stages, "errors", "p50"),
        bar=BARS if coloured else None,
        bar_cells=(BAR_SHORTEST, BAR_LONGEST),
    )
    for name, one, is_value in group_rows(found):
        failed = one["failed"] / one["requests"]
        drawn.add_row(
            escaped(name),
            f"{one['requests']:,}",
            share(one["share_ratio"]),
            Text(share(failed), FAILED if one["failed"] else ""),
            *(duration(one[level]) for level in ("p50_ns", "p95_ns", "p99_ns")),
            partial(stacked_bar, one["mean_ns"]) if coloured else most_time(one),
            sparkline(one["timeline"], columns),
            style=None if is_value else "dim",
        )
    of_stages = {stage for _, one, _ in group_rows(found) for stage in one["mean_ns"]}
    fitted = drawn.drawn(console.width)
    has_bars = any(column.header == BARS for column in fitted.columns)
    whole = count(found["requests"], "request")
    notes = [f"The rows add up to {whole}. Of several values of a request the first counts."]
    if found["unsure"]:
        unsure = count(found["unsure"], "request")
        notes.append(f"Of {unsure} without {found['by']} not all attributes are kept.")
    return [
        Text(f"By {escaped(found['by'])}", "bold"),
        *((legend(sorted(of_stages)),) if has_bars else ()),
        "",
        fitted,
        "",
        *(Text(escaped(note), "dim") for note in notes),
    ]


def most_time(one: "SummaryDocument") -> str:
    """The stage that takes most of the mean: `retrieve 61.0 %`."""
    whole = sum(one["mean_ns"].values())
    if not whole:
        return ""
    stage, length_ns = max(one["mean_ns"].items(), key=lambda item: item[1])
    return f"{stage} {share(length_ns / whole)}"


def sparkline(timeline: "Sequence[TimeColumnDocument]", columns: int) -> str:
    """The p99 over time in so many blocks; a gap is a time without requests."""
    cells = [0] * SPARK_CELLS
    for one in timeline:
        place = min(max(one["column"], 0) * SPARK_CELLS // columns, SPARK_CELLS - 1)
        cells[place] = max(cells[place], one["p99_ns"])
    highest = max(cells, default=0)
    return "".join(
        HEIGHTS[round((len(HEIGHTS) - 1) * cell / highest)] if cell else " " for cell in cells
    )
