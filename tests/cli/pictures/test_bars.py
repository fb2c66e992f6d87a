"""Colours of stages, bars, and plain output when piped."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from latencytrace.cli.pictures.fitted_table import bar, legend, stacked_bar, stage_style
from latencytrace.cli.pictures.terminal import show
from latencytrace.model import Stage
from latencytrace.model.stage_colours import STAGE_COLOURS

STAGE_NAMES = st.sampled_from([str(stage) for stage in Stage])


def test_every_stage_has_a_colour_of_its_own() -> None:
    colours = [stage_style(stage).color for stage in Stage]

    assert [one and one.number for one in colours] == [
        STAGE_COLOURS[stage].terminal for stage in Stage
    ]
    assert stage_style("of a newer service") == stage_style(Stage.OTHER)


@given(st.dictionaries(STAGE_NAMES, st.integers(1, 10**12), min_size=1), st.integers(1, 200))
def test_a_stacked_bar_fills_its_width_exactly(stages: dict[str, int], width: int) -> None:
    assert stacked_bar(stages, width).cell_len == width


@given(st.floats(0, 1), st.integers(1, 200))
def test_a_bar_is_never_longer_than_its_width(ratio: float, width: int) -> None:
    assert len(bar(ratio, width)) <= width


def test_whatever_is_there_at_all_shows() -> None:
    assert bar(0.0, 40) == ""
    assert bar(1e-9, 40) == "▏"
    assert bar(1.0, 4) == "████"


def test_a_stage_of_a_newer_service_is_drawn_as_other() -> None:
    drawn = legend(["teleport"])

    assert drawn.plain.strip() == "■ teleport"


def test_lines_have_nothing_at_their_ends(capsys: pytest.CaptureFixture[str]) -> None:
    show(Console(width=40, file=io.StringIO()), "a   ", "b")

    assert capsys.readouterr().out == "a\nb\n"
