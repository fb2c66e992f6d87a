"""The colours of stages: every stage has one, and it can be seen on its ground."""

from itertools import combinations
from math import atan2, cos, degrees, exp, hypot, radians, sin, sqrt

import numpy as np
import pytest

from latencytrace.model import Stage
from latencytrace.model.stage_colours import (
    DARK_GROUNDS,
    LIGHT_GROUNDS,
    STAGE_COLOURS,
    contrast,
    text_on,
)
from tests.support.over_all import over_all


def test_every_stage_has_colours_of_its_own() -> None:
    assert set(STAGE_COLOURS) == set(Stage)
    for theme in zip(*STAGE_COLOURS.values(), strict=True):
        assert len(set(theme)) == len(Stage)


@over_all("stage", Stage)
def test_a_stage_is_seen_on_every_ground(stage: Stage) -> None:
    colour = STAGE_COLOURS[stage]

    assert min(contrast(colour.light, ground) for ground in LIGHT_GROUNDS) >= 3
    assert min(contrast(colour.dark, ground) for ground in DARK_GROUNDS) >= 3


@over_all("stage", Stage)
def test_text_on_a_stage_is_read(stage: Stage) -> None:
    for colour in STAGE_COLOURS[stage][:2]:
        assert contrast(text_on(str(colour)), str(colour)) >= 4.5


# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision
# deficiency", 2009: severity 1, on linear RGB.
EYES = {
    "usual": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]]
    ),
}  # fmt: skip
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
     [0.0193339, 0.1191920, 0.9503041]]
)  # fmt: skip
WHITE_XYZ = np.array([0.95047, 1.0, 1.08883])
# What most systems have: of these any two touch where what is between them is absent.
COMMON = frozenset(Stage) - {
    Stage.TRANSFER, Stage.POSTPROCESS, Stage.LOAD, Stage.RETRY, Stage.RUNTIME, Stage.APPLICATION,
    Stage.OTHER,
}  # fmt: skip
ORDER = list(Stage)
Lab = tuple[float, float, float]
PAIRS = list(combinations(Stage, 2))


def lab(colour: str, eye: str) -> Lab:
    """A colour as an eye sees it, in CIELAB under D65."""
    parts = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(EYES[eye] @ linear, 0, 1) / WHITE_XYZ
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one: Lab, other: Lab) -> float:
    """The difference of two colours (CIEDE2000)."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean_c = (hypot(a1, b1) + hypot(a2, b2)) / 2
    g = (1 - sqrt(mean_c**7 / (mean_c**7 + 25**7))) / 2
    a1, a2 = a1 * (1 + g), a2 * (1 + g)
    c1, c2 = hypot(a1, b1), hypot(a2, b2)
    h1, h2 = (degrees(atan2(b, a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    hue = radians((h1 + turn / 2) % 360 if c1 * c2 else h1 + h2)
    light, c = (l1 + l2) / 2, (c1 + c2) / 2
    t = (
        1 - 0.17 * cos(hue - radians(30)) + 0.24 * cos(2 * hue)
        + 0.32 * cos(3 * hue + radians(6)) - 0.2 * cos(4 * hue - radians(63))
    )  # fmt: skip
    by_light = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / sqrt(20 + (light - 50) ** 2))
    by_chroma = (c2 - c1) / (1 + 0.045 * c)
    by_hue = 2 * sqrt(c1 * c2) * sin(radians(turn / 2)) / (1 + 0.015 * c * t)
    bend = 30 * exp(-(((degrees(hue) - 275) / 25) ** 2))
    rotated = -sin(radians(2 * bend)) * 2 * sqrt(c**7 / (c**7 + 25**7)) * by_chroma * by_hue
    return sqrt(by_light**2 + by_chroma**2 + by_hue**2 + rotated)


def touches(one: Stage, other: Stage) -> bool:
    """Tell whether two stages may stand side by side in a bar."""
    near = abs(ORDER.index(one) - ORDER.index(other)) <= 3
    return near or {one, other} <= COMMON or Stage.UNATTRIBUTED in {one, other}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [  # Sharma, Wu and Dalal, "The CIEDE2000 color-difference formula", 2005, table 1
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, -1.0, 2.0), (50.0, 0.0, 0.0), 2.3669),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
    ],
)
def test_differences_are_those_that_the_formula_was_published_with(
    one: Lab, other: Lab, expected: float
) -> None:
    assert difference(one, other) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_stages_that_touch_differ_for_every_eye(eye: str, theme: str) -> None:
    close = {
        (str(one), str(other)): found
        for one, other in PAIRS
        if (found := of_pair(one, other, eye, theme)) < (10 if touches(one, other) else 5.5)
    }

    assert close == {}


def of_pair(one: Stage, other: Stage, eye: str, theme: str) -> float:
    first, second = (getattr(STAGE_COLOURS[stage], theme) for stage in (one, other))
    return difference(lab(first, eye), lab(second, eye))


@over_all("stage", Stage)
def test_no_stage_is_red_for_red_is_bad(stage: Stage) -> None:
    for colour in STAGE_COLOURS[stage][:2]:
        light, a, b = lab(str(colour), "usual")
        hue = degrees(atan2(b, a)) % 360
        assert not (hypot(a, b) > 45 and (hue < 42 or hue > 350)), (colour, light)
