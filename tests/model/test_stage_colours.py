"""The colours of stages: every stage has one, and it can be seen on its ground."""

import pytest

from latencytrace.model import Stage
from latencytrace.model.stage_colours import (
    DARK_GROUNDS,
    LIGHT_GROUNDS,
    STAGE_COLOURS,
    contrast,
    text_on,
)


def test_every_stage_has_colours_of_its_own() -> None:
    assert set(STAGE_COLOURS) == set(Stage)
    for theme in zip(*STAGE_COLOURS.values(), strict=True):
        assert len(set(theme)) == len(Stage)


@pytest.mark.parametrize("stage", Stage)
def test_a_stage_is_seen_on_every_ground(stage: Stage) -> None:
    colour = STAGE_COLOURS[stage]

    assert min(contrast(colour.light, ground) for ground in LIGHT_GROUNDS) >= 3
    assert min(contrast(colour.dark, ground) for ground in DARK_GROUNDS) >= 3


@pytest.mark.parametrize("stage", Stage)
def test_text_on_a_stage_is_read(stage: Stage) -> None:
    for colour in STAGE_COLOURS[stage][:2]:
        assert contrast(text_on(str(colour)), str(colour)) >= 4.5
