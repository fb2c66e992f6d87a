"""The one colour of each stage: pages on a light and on a dark ground, terminals of 256 colours.

Chosen so that stages that often touch can be distinguished, by colour-blind people as well; the
contrast with the ground is at least 3 : 1. A test holds these properties.
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
    Stage.NETWORK: StageColour("#003db8", "#5387ef", 27),
    Stage.QUEUE: StageColour("#1c98c6", "#25b9fe", 32),
    Stage.TRANSFER: StageColour("#5d6486", "#6c7396", 60),
    Stage.RETRY: StageColour("#4873f4", "#c5dbff", 104),
    Stage.PREPROCESS: StageColour("#023f4b", "#277887", 24),
    Stage.TOKENIZE: StageColour("#649690", "#25ffe8", 103),
    Stage.EMBED: StageColour("#017488", "#86bfc6", 66),
    Stage.GUARDRAIL: StageColour("#056250", "#0fa589", 29),
    Stage.CACHE: StageColour("#809701", "#5c7800", 58),
    Stage.RETRIEVE: StageColour("#536b03", "#a3be2c", 100),
    Stage.DATABASE: StageColour("#1b4214", "#809371", 65),
    Stage.RERANK: StageColour("#109864", "#86e09d", 34),
    Stage.PREFILL: StageColour("#740800", "#bd4130", 160),
    Stage.DECODE: StageColour("#db3656", "#ee8c86", 203),
    Stage.FORWARD: StageColour("#a14a03", "#ffbe8b", 137),
    Stage.REMOTE_MODEL: StageColour("#cc7a07", "#cd6f01", 130),
    Stage.DETOKENIZE: StageColour("#cf5acc", "#efd3f6", 171),
    Stage.POSTPROCESS: StageColour("#a17885", "#ff81bc", 168),
    Stage.RESPOND: StageColour("#8e3f70", "#a25e83", 96),
    Stage.RUNTIME: StageColour("#500677", "#8b50ba", 92),
    Stage.LOAD: StageColour("#9c8b66", "#fec82d", 136),
    Stage.APPLICATION: StageColour("#8749d1", "#d498ff", 134),
    Stage.TOOL: StageColour("#765d04", "#e6dfb6", 101),
    Stage.OTHER: StageColour("#6a6f6a", "#aeaeae", 246),
    Stage.UNATTRIBUTED: StageColour("#3b3732", "#6f6b65", 240),
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
