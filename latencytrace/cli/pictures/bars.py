"""Parts that pictures in the terminal share: colours of stages, bars, and tables."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from rich.style import Style
from rich.table import Table
from rich.text import Text

from latencytrace.model import Stage

EIGHTHS = " ▏▎▍▌▋▊▉"
BLOCK = "█"

# Work of the model is warm, finding things is green, waiting is red, text is blue.
COLOURS: Mapping[Stage, str] = {
    Stage.NETWORK: "#8c6d46",
    Stage.QUEUE: "#e5484d",
    Stage.PREPROCESS: "#6c8ebf",
    Stage.TOKENIZE: "#3e9fe6",
    Stage.EMBED: "#12a594",
    Stage.RETRIEVE: "#46b450",
    Stage.RERANK: "#9bc53d",
    Stage.CACHE: "#5f7a3f",
    Stage.GUARDRAIL: "#b5838d",
    Stage.TRANSFER: "#a18072",
    Stage.PREFILL: "#f59e0b",
    Stage.DECODE: "#f2d14b",
    Stage.FORWARD: "#e8833a",
    Stage.DETOKENIZE: "#7cd4fd",
    Stage.POSTPROCESS: "#8ea6c9",
    Stage.RESPOND: "#c061cb",
    Stage.REMOTE_MODEL: "#d6409f",
    Stage.TOOL: "#8e4ec6",
    Stage.LOAD: "#b45309",
    Stage.DATABASE: "#2f7d5b",
    Stage.RETRY: "#b3261e",
    Stage.RUNTIME: "#ff8a80",
    Stage.APPLICATION: "#d8d8d8",
    Stage.OTHER: "#9a9a9a",
    Stage.UNATTRIBUTED: "#6f6f6f",
}
FAILED = "#e5484d"  # what went wrong
ORDER = {str(stage): place for place, stage in enumerate(Stage)}

Name = TypeVar("Name", bound=str)  # a stage, or what a newer service calls one


def stage_style(stage: str) -> Style:
    """The one colour of a stage, the same in every picture."""
    known = Stage(stage) if stage in COLOURS else Stage.OTHER
    return Style(color=COLOURS[known])


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
