"""Parts of pictures in the terminal: colours of stages, bars, and tables that fit its width."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.table import Table
from rich.text import Text

from latencytrace.cli.pictures.terminal import fit
from latencytrace.model import Stage
from latencytrace.model.stage_colours import STAGE_COLOURS
from latencytrace.model.texts.escaped import escaped

EIGHTHS = " ▏▎▍▌▋▊▉"
BLOCK = "█"

FAILED = "#e5484d"  # what went wrong
ORDER = {str(stage): place for place, stage in enumerate(Stage)}

Name = TypeVar("Name", bound=str)  # a stage, or what a newer service calls one


def stage_style(stage: str) -> Style:
    """The one colour of a stage, the same in every picture."""
    known = Stage(stage) if stage in ORDER else Stage.OTHER
    return Style(color=f"color({STAGE_COLOURS[known].terminal})")


def in_order(stages: Mapping[Name, int]) -> list[tuple[Name, int]]:
    """Stages in the order in which a request passes them, unknown ones last."""
    return sorted(stages.items(), key=lambda item: (ORDER.get(item[0], len(ORDER)), item[0]))


def bar(ratio: float, width: int) -> str:
    """A bar of eighths of a cell; whatever is there at all shows."""
    eighths = round(max(0.0, min(1.0, ratio)) * width * 8)
    if eighths == 0:
        return EIGHTHS[1] if ratio > 0 else ""
    return BLOCK * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def stacked_bar(stages: Mapping[Name, int], width: int) -> Text:
    """All stages in one bar that is exactly `width` cells long."""
    whole = sum(stages.values())
    text = Text()
    if whole <= 0:
        return text
    before = 0
    done = 0
    for stage, length in in_order(stages):
        done += length
        end = round(width * done / whole)
        text.append(BLOCK * (end - before), stage_style(stage))
        before = end
    return text


def legend(stages: Sequence[str]) -> Text:
    """A line that says which colour is which stage."""
    text = Text()
    for stage, _ in in_order(dict.fromkeys(stages, 0)):
        text.append("■ ", stage_style(stage))
        text.append(f"{stage}   ")
    return text


GAPS = 2, 1  # cells between columns: the second where a column would be left out else
NAME_LEAST = 12  # such as `unattributed`


def table(*headings: str, left: Sequence[str] = (), gap: int = GAPS[0]) -> Table:
    """A table without lines; numbers to the right, the columns named `left` to the left."""
    drawn = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    for heading in headings:
        drawn.add_column(heading, justify="left" if heading in left else "right", no_wrap=True)
    return drawn


Bar = Callable[[int], Text]  # draws it, so many cells long
Cell = str | Text | Bar


class FittedTable:
    """A table of which no column is wider than the terminal has room for; `rich` prints it.

    Args:
        left: The columns that are set to the left.
        name: The column of names that may be cut, where nothing else helps.
        leave_out: Columns that a narrow terminal does without, the first of these first.
        bar: The column of bars, which take the room that is left; None: there is none.
        bar_cells: How long they are at the least, and at the most.
    """

    def __init__(
        self,
        *headings: str,
        left: Sequence[str],
        name: str,
        leave_out: Sequence[str],
        bar: str | None = None,
        bar_cells: tuple[int, int] = (0, 0),
    ) -> None:
        self._headings = headings
        self._left = left
        self._bar = bar
        self._bar_least, self._bar_most = bar_cells
        self._name = name
        self._leave_out = leave_out
        self._rows: list[tuple[Sequence[Cell], str | Style | None]] = []

    def add_row(self, *cells: Cell, style: str | Style | None = None) -> None:
        self._rows.append((cells, style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print it as wide as there is room for."""
        yield fit(self.drawn(options.max_width))

    def drawn(self, width: int) -> Table:
        """The table for a console that is so wide."""
        kept, least, gap = self._kept(width)
        wide = {heading: self._width(heading) for heading in kept}
        free = max(0, width - least)
        name = min(wide.get(self._name, 0), NAME_LEAST + free)
        bar = min(self._bar_most, self._bar_least + max(0, free - max(0, name - NAME_LEAST)))
        drawn = table(*kept, left=self._left, gap=gap)
        for column in drawn.columns:
            if column.header == self._name:
                column.max_width = max(name, 1)
        for cells, style in self._rows:
            by_heading = zip(self._headings, cells, strict=True)
            shown = [cell for heading, cell in by_heading if heading in kept]
            drawn.add_row(
                *(cell if isinstance(cell, str | Text) else cell(bar) for cell in shown),
                style=style,
            )
        return drawn

    def _kept(self, width: int) -> tuple[list[str], int, int]:
        """The columns that there is room for, how wide they are at the least, and their gaps."""
        kept = list(self._headings)
        in_turn = [heading for heading in self._leave_out if heading in kept]
        while True:
            wide, gaps = sum(map(self._least, kept)), len(kept) - 1
            gap = next((one for one in GAPS if wide + one * gaps <= width), GAPS[-1])
            if wide + gap * gaps <= width or not in_turn:
                return kept, wide + gap * gaps, gap
            kept.remove(in_turn.pop(0))

    def _least(self, heading: str) -> int:
        if heading == self._name:
            return min(NAME_LEAST, self._width(heading))
        return self._width(heading)

    def _width(self, heading: str) -> int:
        if heading == self._bar:
            return max(self._bar_least, len(heading))
        place = self._headings.index(heading)
        return max([len(heading), *(_cells(cells[place]) for cells, _ in self._rows)])


def stage_bar(ratio: float, stage: str) -> Bar:
    """A bar in the colour of a stage, for whatever room there is."""
    return lambda cells: Text(bar(ratio, cells), stage_style(stage))


def _cells(cell: Cell) -> int:
    text = cell if isinstance(cell, str) else cell.plain if isinstance(cell, Text) else ""
    return cell_len(escaped(text))
