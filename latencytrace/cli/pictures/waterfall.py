"""One request drawn over time: its spans as a tree, and which of them held it up."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from latencytrace.cli.pictures.fitted_table import BLOCK, FAILED, stage_style, table
from latencytrace.model import FirstTokenOf, Stage
from latencytrace.model.texts.escaped import escaped
from latencytrace.model.texts.units import count, duration
from latencytrace.service.answers.documents import RequestDocument, StallDocument
from latencytrace.service.answers.sentences.stage_parts import stage_parts
from latencytrace.service.answers.traces.waterfall_rows import (
    LEVEL,
    Row,
    Rows,
    Stretch,
    chosen,
    rows,
)

OFF_PATH = "░"
AXIS = "─"
BARS_LEAST, BARS_MOST = 16, 80
NAME_LEAST, NAME_LONGEST = 16, 44
NAME_CUT = 6  # cells that a name keeps next to its notes
STAGE_LONGEST = 14
GAP = 2  # cells between columns
ON_PATH, RAN = "on path", "duration"  # headings: of the critical path, and of the span
MOST_ROWS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns of a line, in cells."""

    name: int
    took: bool  # whether there is room for it
    bars: int  # 0: there is no room

    @classmethod
    def fitting(cls, shown: Sequence[Row], width: int) -> "Layout":
        """Fit names and the console: bars go first, then durations."""
        stage = min(STAGE_LONGEST, max(len("stage"), *(cell_len(row.stage) for row in shown)))
        held = max(len(ON_PATH), *(len(duration(row.path_ns)) for row in shown))
        took = max(len(RAN), *(len(duration(row.duration_ns)) for row in shown)) + GAP
        names = max(len("span"), *(cell_len(row.tree + _named(row)) for row in shown))
        room = width - stage - held - 2 * GAP
        if room - took - GAP - BARS_LEAST >= NAME_LEAST:
            longest = max(NAME_LONGEST, width // 3)
            name = min(names, longest, room - took - GAP - BARS_LEAST)
            return cls(name=name, took=True, bars=min(BARS_MOST, room - took - GAP - name))
        if room - took >= NAME_LEAST:
            return cls(name=min(names, room - took), took=True, bars=0)
        return cls(name=max(1, min(names, room)), took=False, bars=0)


def waterfall(request: RequestDocument, console: Console) -> list[RenderableType]:
    """The picture: solid where a span is on the critical path, shaded where it is not."""
    every = rows(request)
    shown = [every[place] for place in chosen(every, MOST_ROWS)]
    if not shown:
        return []
    layout = Layout.fitting(shown, console.width)
    more = [*([RAN] if layout.took else []), *([""] if layout.bars else [])]
    drawn = table("span", "stage", ON_PATH, *more, left=("span", "stage", ""))
    drawn.columns[1].max_width = STAGE_LONGEST
    if layout.bars:
        drawn.columns[-1].header = _axis(request["duration_ns"], layout.bars)
    for row in shown:
        _add(drawn, row, request["duration_ns"], layout)
    return [drawn, *_notes(every, shown, layout)]


def _notes(every: Rows, shown: Sequence[Row], layout: Layout) -> Iterator[RenderableType]:
    if layout.bars:
        yield ""
        yield Text(f"{BLOCK} the request waited for it (critical path)   {OFF_PATH} it ran", "dim")
    if len(every) > len(shown):
        rest_ns = sum(every.held_ns()) - sum(row.path_ns for row in shown)
        yield Text(
            f"{len(shown):,} of {count(len(every), 'row')}: those that it waited for longest; "
            f"for the others it waited {duration(rest_ns)} in all. --json has them.",
            "dim",
        )


def _add(drawn: Table, row: Row, whole_ns: int, layout: Layout) -> None:
    style = stage_style(row.stage)
    cells: list[str | Text] = [
        _name(row, layout.name),
        Text(row.stage, style),
        duration(row.path_ns) if row.path_ns else "",
        *([Text(duration(row.duration_ns), "dim")] if layout.took else []),
        *([Text(_bar(row, whole_ns, layout.bars), style)] if layout.bars else []),
    ]
    drawn.add_row(*cells)


def _named(row: Row) -> str:
    return row.mark + " ".join(escaped(part) for part in (row.name, *row.notes))


def _name(row: Row, width: int) -> Text:
    """Its place in the tree, its name and its notes; of what is too long, names are cut first."""
    tree = _tree(row, width)
    name, room = row.mark + escaped(row.name), width - cell_len(tree)
    most = room - min(NAME_CUT, cell_len(name))
    notes = _cut("".join(f" {escaped(note)}" for note in row.notes), most)
    name = _cut(name, room - cell_len(notes))
    text = Text(tree + name)
    text.append(notes, FAILED if row.failed else "bold")
    return text


def _tree(row: Row, width: int) -> str:
    """The lines before its name; of a deep tree the levels next to it, and how many are not."""
    if cell_len(row.tree) == LEVEL * row.depth and cell_len(row.tree) <= width // 2:
        return row.tree
    levels = max(1, (width // 2 - len(f"{row.depth}… ")) // LEVEL)
    return f"{row.depth - levels}… {row.tree[-LEVEL * levels :]}"


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else f"{set_cell_size(text, max(0, width - 1))}…"


def _bar(row: Row, whole_ns: int, width: int) -> str:
    """A cell is solid where half of what ran in it held the request up, or the most of all."""
    ran = _cells(row.stretches, whole_ns, width)
    held_up = _cells(row.on_path, whole_ns, width)
    most = max(held_up) or 1.0
    drawn = [
        " " if not time else BLOCK if 2 * path >= time or path == most else OFF_PATH
        for time, path in zip(ran, held_up, strict=True)
    ]
    return "".join(drawn).rstrip()


def _cells(stretches: Sequence[Stretch], whole_ns: int, width: int) -> list[float]:
    """The share of each cell that the stretches cover; at least a trace of each shows.

    What lies outside of the request is seen at its edge.
    """
    covered = [0.0] * width
    for start_ns, end_ns in stretches:
        start = min(width - 1e-9, max(0.0, width * start_ns / max(1, whole_ns)))
        end = max(start + 1e-9, width * end_ns / max(1, whole_ns))
        for cell in range(int(start), min(width, int(end) + 1)):
            covered[cell] += max(0.0, min(end, cell + 1) - max(start, cell))
    return covered


def _axis(whole_ns: int, width: int) -> str:
    """`0 ───── 300 ms ───── 600 ms`; without its middle where that has no room."""
    middle, right = f" {duration(whole_ns / 2)} ", f" {duration(whole_ns)}"
    line = "0 ".ljust(width // 2 - len(middle) // 2, AXIS) + middle
    if len(line) + 1 + len(right) > width:
        line = "0 "
    return line.ljust(width - len(right), AXIS) + right


MOST_STALLS = 10
MEANINGS = {
    "respond": "respond: the caller took no more",
    "runtime": "runtime: garbage collection and the like",
    "prefill": "prefill: another prompt was read first",
    "preemption": "preemption: the engine set it aside",
    "unknown": "unknown: nothing that was traced explains it",
}


def first_token(request: RequestDocument) -> list[str]:
    """The time to the first token, and where it was taken; nothing where it is unknown."""
    first_ns, models_ns = (
        request["time_to_first_token_ns"],
        request["model_time_to_first_token_ns"],
    )
    if first_ns is None:
        return []
    named = f"first token {duration(first_ns)}"
    if request["time_to_first_token_of"] == FirstTokenOf.MODEL:
        return [f"{named} (the model's, not the caller's)"]
    return [named if models_ns is None else f"{named} (the model's {duration(models_ns)})"]


def between_tokens(request: RequestDocument) -> list[RenderableType]:
    """Quantiles of the gaps, and each stall with its label; nothing where they are unknown."""
    quantiles = request["inter_token_ns"]
    if quantiles is None:
        return []
    lengths = ", ".join(
        f"{name} {duration(value)}"
        for name, value in (
            ("p50", quantiles["p50"]),
            ("p99", quantiles["p99"]),
            ("longest", quantiles["max"]),
        )
    )
    found = request["stalls"] or []
    lines = [Text(f"between tokens: {lengths}", "dim")]
    if found:
        lines.append(Text(f"{count(len(found), 'stall')}:", "yellow"))
    lines += [
        Text(
            f"  {duration(stall['duration_ns'])} at {duration(stall['start_ns'])}, "
            f"{_meaning(request, stall)}",
            "yellow",
        )
        for stall in found[:MOST_STALLS]
    ]
    if len(found) > MOST_STALLS:
        lines.append(Text(f"  and {len(found) - MOST_STALLS} more", "yellow"))
    return ["", *lines]


def _meaning(request: RequestDocument, stall: StallDocument) -> str:
    """The label of a stall in words; of `runtime`, what most of it was."""
    start_ns = stall["start_ns"]
    end_ns = start_ns + stall["duration_ns"]
    parts = stage_parts(request["segments"], Stage.RUNTIME, start_ns, end_ns)
    if stall["label"] == Stage.RUNTIME and parts:
        return f"{Stage.RUNTIME}: {parts[0][0]}"
    return MEANINGS.get(stall["label"], stall["label"])
