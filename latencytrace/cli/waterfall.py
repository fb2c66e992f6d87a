"""One request drawn over time: its spans as a tree, and which of them held it up."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from latencytrace.cli.pictures import BLOCK, stage_style, table
from latencytrace.cli.units import duration
from latencytrace.model.escaped import escaped
from latencytrace.service.documents import RequestDocument, SegmentDocument, SpanDocument

OFF_PATH = "░"
AXIS = "─"
BARS_LEAST, BARS_MOST = 16, 80
NAME_LONGEST = 44
OTHER_COLUMNS = 38  # cells of stage, duration and share of the path, with their gaps
MOST_ROWS = 300

Stretch = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the waterfall: a span, or one stage of the intervals inside it."""

    tree: str  # what stands before the name: `│  └─ `
    name: str
    stage: str
    stretches: Sequence[Stretch]  # when it ran
    on_path: Sequence[Stretch]  # when the request waited for just this

    @property
    def duration_ns(self) -> int:
        """How long it ran."""
        return sum(end - start for start, end in self.stretches)

    @property
    def path_ns(self) -> int:
        """How long the request waited for it."""
        return sum(end - start for start, end in self.on_path)


def waterfall(request: RequestDocument, console: Console) -> list[RenderableType]:
    """The picture: solid where a span is on the critical path, shaded where it is not."""
    every = list(rows(request))
    shown = every[:MOST_ROWS]
    name_width = min(NAME_LONGEST, max(cell_len(row.tree + escaped(row.name)) for row in shown))
    room = console.width - name_width - OTHER_COLUMNS
    width = max(BARS_LEAST, min(BARS_MOST, room))
    drawn = table("span", "stage", "took", "held up", "", left=("span", "stage", ""))
    drawn.columns[-1].header = _axis(request["duration_ns"], width)
    for row in shown:
        _add(drawn, row, request["duration_ns"], width, name_width)
    notes = f"{BLOCK} holds the request up (the critical path)   {OFF_PATH} runs beside it"
    parts: list[RenderableType] = [drawn, "", Text(notes, "dim")]
    if len(every) > len(shown):
        parts.append(Text(f"{len(every) - len(shown)} more rows: see --json", "dim"))
    return parts


def rows(request: RequestDocument) -> Iterator[Row]:
    """Spans in the order of a tree, each followed by the intervals inside it.

    Where the spans were not kept, the segments of the critical path take their place.
    """
    spans = request["spans"]
    on_path: dict[tuple[str, str], list[SegmentDocument]] = {}
    for segment in request["segments"]:
        on_path.setdefault((segment["span_id"], segment["stage"]), []).append(segment)
    if not spans:
        for (_, stage), segments in on_path.items():
            stretches = _stretches(segments)
            name = segments[0]["name"]
            yield Row(tree="", name=name, stage=stage, stretches=stretches, on_path=stretches)
        return
    for span, tree, below in _tree(spans):
        own = on_path.pop((span["span_id"], span["stage"]), [])
        yield Row(
            tree=tree,
            name=span["name"],
            stage=span["stage"],
            stretches=[(span["start_ns"], span["end_ns"])],
            on_path=_stretches(own),
        )
        for key in [key for key in on_path if key[0] == span["span_id"]]:
            stretches = _stretches(on_path.pop(key))
            times = f" x{len(stretches)}" if len(stretches) > 1 else ""
            yield Row(
                tree=f"{below}· ",
                name=f"{key[1]}{times}",
                stage=key[1],
                stretches=stretches,
                on_path=stretches,
            )


def _tree(spans: Sequence[SpanDocument]) -> Iterator[tuple[SpanDocument, str, str]]:
    """Every span once, with what stands before its name and before what is inside it."""
    known = {span["span_id"] for span in spans}
    children: dict[str | None, list[SpanDocument]] = {}
    for span in sorted(spans, key=lambda span: (span["start_ns"], -span["end_ns"])):
        parent_id = span["parent_id"]
        children.setdefault(parent_id if parent_id in known else None, []).append(span)
    stack = [(span, "", "") for span in reversed(children.get(None, []))]
    while stack:
        span, tree, indent = stack.pop()
        below = children.get(span["span_id"], [])
        yield span, tree, indent + ("│  " if below else "   ")
        last = len(below) - 1
        for place in range(last, -1, -1):
            branch, deeper = ("└─ ", "   ") if place == last else ("├─ ", "│  ")
            stack.append((below[place], indent + branch, indent + deeper))


def _stretches(segments: Sequence[SegmentDocument]) -> list[Stretch]:
    return [(segment["start_ns"], segment["end_ns"]) for segment in segments]


def _add(drawn: Table, row: Row, whole_ns: int, width: int, name_width: int) -> None:
    style = stage_style(row.stage)
    name = row.tree + escaped(row.name)
    if cell_len(name) > name_width:
        name = f"{set_cell_size(name, name_width - 1)}…"
    drawn.add_row(
        name,
        Text(row.stage, style),
        duration(row.duration_ns),
        duration(row.path_ns) if row.path_ns else "",
        Text(_bar(row, whole_ns, width), style),
    )


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
    """How much of each cell the stretches cover; at least a trace of each shows.

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
    """`0 ───── 300 ms ───── 600 ms`."""
    middle, right = f" {duration(whole_ns / 2)} ", f" {duration(whole_ns)}"
    line = "0 ".ljust(width // 2 - len(middle) // 2, AXIS) + middle
    return line.ljust(width - len(right), AXIS) + right
