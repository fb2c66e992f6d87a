"""Parts that pictures in the terminal share: colours of stages, bars, and tables."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from rich.style import Style
from rich.table import Table
from rich.text import Text

from latencytrace.model import Stage
from latencytrace.model.stage_colours import STAGE_COLOURS

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


def table(*headings: str, left: Sequence[str] = ()) -> Table:
    """A table without lines; numbers to the right, the columns named `left` to the left."""
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        drawn.add_column(heading, justify="left" if heading in left else "right", no_wrap=True)
    return drawn
