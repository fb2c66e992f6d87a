"""The one colour of each stage: pages on a light and on a dark ground, terminals of 256 colours.

Chosen so that stages that may touch can be distinguished, by colour-blind people as well
(CIEDE2000 of 10 at least for protan, deutan and tritan eyes); none is red, which is for what is
bad; the contrast with the ground is at least 3 : 1. A test holds these properties.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from latencytrace.model.stage import Stage

BLACK, WHITE = "#000000", "#ffffff"
LIGHT_GROUNDS: Final = (WHITE, "#f4f6f8")  # of a page, of a panel
DARK_GROUNDS: Final = ("#12161c", "#1b2129")


class StageColour(NamedTuple):
    """The colours of a stage."""

    light: str  # on a light ground
    dark: str
    terminal: int  # of 256


STAGE_COLOURS: Final[Mapping[Stage, StageColour]] = {
    Stage.NETWORK: StageColour("#1529b7", "#5684ee", 27),
    Stage.QUEUE: StageColour("#298ff5", "#3cb1f8", 32),
    Stage.TRANSFER: StageColour("#5c528a", "#6182b1", 60),
    Stage.RETRY: StageColour("#4d67d8", "#d0c4de", 104),
    Stage.PREPROCESS: StageColour("#033247", "#397577", 24),
    Stage.TOKENIZE: StageColour("#708689", "#62ffe2", 103),
    Stage.EMBED: StageColour("#1961a9", "#a0babb", 66),
    Stage.GUARDRAIL: StageColour("#015352", "#03a08d", 29),
    Stage.CACHE: StageColour("#6d6f4f", "#5c7615", 58),
    Stage.RETRIEVE: StageColour("#437208", "#a9af00", 100),
    Stage.DATABASE: StageColour("#252900", "#92845c", 65),
    Stage.RERANK: StageColour("#928a7d", "#91d6ad", 34),
    Stage.PREFILL: StageColour("#623d04", "#878f20", 160),
    Stage.DECODE: StageColour("#ad8817", "#f3b578", 203),
    Stage.FORWARD: StageColour("#7e8954", "#b9a07e", 137),
    Stage.REMOTE_MODEL: StageColour("#5b675f", "#e2d21c", 130),
    Stage.DETOKENIZE: StageColour("#db5dba", "#edd3ff", 171),
    Stage.POSTPROCESS: StageColour("#aa637b", "#fb7ecb", 168),
    Stage.RESPOND: StageColour("#825279", "#a7649e", 96),
    Stage.RUNTIME: StageColour("#441671", "#8d51b4", 92),
    Stage.LOAD: StageColour("#6e939e", "#cea956", 136),
    Stage.APPLICATION: StageColour("#83649b", "#c2cdc7", 134),
    Stage.TOOL: StageColour("#565137", "#ecf3b3", 101),
    Stage.OTHER: StageColour("#616168", "#a5ab99", 246),
    Stage.UNATTRIBUTED: StageColour("#3f312c", "#736a60", 240),
}


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG 2.2 defines it."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4  # noqa: PLR2004 - sRGB's
        for part in (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21, as WCAG 2.2 defines it."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def text_on(colour: str) -> str:
    """Black or white, whichever is read better on a colour."""
    return max((BLACK, WHITE), key=lambda text: contrast(text, colour))
