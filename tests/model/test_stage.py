"""The fixed list of stages, and which of them explain time."""

import pytest

from latencytrace.model import Stage


@pytest.mark.parametrize(
    "stage", [Stage.UNATTRIBUTED, Stage.OTHER, Stage.RUNTIME, Stage.APPLICATION]
)
def test_time_that_nobody_placed_is_not_explained(stage: Stage) -> None:
    assert not stage.explains


@pytest.mark.parametrize(
    "stage",
    sorted(set(Stage) - {Stage.UNATTRIBUTED, Stage.OTHER, Stage.RUNTIME, Stage.APPLICATION}),
)
def test_time_in_any_other_stage_is_explained(stage: Stage) -> None:
    assert stage.explains


def test_a_stage_is_written_as_a_metric_labels_value() -> None:
    assert f"{Stage.REMOTE_MODEL}" == "remote_model"
