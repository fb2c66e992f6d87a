"""A file of objectives is taken up when it changes, and kept as it was while it is wrong."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from latencytrace.model import Objective
from latencytrace.service.objectives.file import read_objectives
from latencytrace.service.watch import ObjectivesReload, differences
from tests.support.builders.made_objectives import SECOND_NS, made_objective

TEXT = """\
apiVersion: openslo/v1
kind: SLO
metadata: {name: NAME}
spec:
  service: rag
  budgetingMethod: Occurrences
  timeWindow: [{duration: 30d, isRolling: true}]
  indicatorRef: chat
  objectives: [{op: lte, value: 2.0, target: 0.99}]
"""
CHANGED = (
    "objective chat-e2e was changed: route POST /chat is none now, value 2 is 3 now, target 0.99 "
    "is 0.999 now"
)
SLI = """\
apiVersion: openslo/v1
kind: SLI
metadata: {name: chat}
spec: {thresholdMetric: {metricSource: {type: latencytrace, spec: {measure: MEASURE}}}}
"""


class Watched:
    """A file that is watched, and what was taken up."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "objectives.yaml"
        self.beside = folder / "indicators.yaml"
        self.beside.write_text(SLI.replace("MEASURE", "duration"))
        self.write("first")
        self.taken: list[list[str]] = []
        self.reload = ObjectivesReload(self.path, read_objectives(self.path))
        self.reload.changed.append(self._take)

    def write(self, *names: str, more: str = "") -> None:
        """Replace the file by one of these objectives."""
        text = "---\n".join(TEXT.replace("NAME", name) for name in names)
        self.path.with_suffix(".new").write_text(text + more)
        self.path.with_suffix(".new").replace(self.path)  # as editors do

    def _take(self, objectives: Sequence[Objective]) -> None:
        self.taken.append([f"{one.name}: {one.measured}" for one in objectives])


@pytest.fixture
def watched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Watched:
    caplog.set_level(logging.INFO)
    return Watched(tmp_path)


def test_a_file_that_did_not_change_is_left_alone(watched: Watched) -> None:
    watched.reload.step()
    watched.reload.step()

    assert watched.taken == []


def test_a_file_that_changed_is_taken_up_and_the_difference_is_said(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.write("first", "second")
    watched.reload.step()
    watched.reload.step()

    assert watched.taken == [["first: duration", "second: duration"]]
    assert "objective second was added" in caplog.text


def test_a_file_beside_that_it_refers_to_is_watched_too(watched: Watched) -> None:
    watched.beside.write_text(SLI.replace("MEASURE", "time_to_first_token"))
    watched.reload.step()

    assert watched.taken == [["first: time_to_first_token"]]


def test_a_file_that_is_wrong_changes_nothing_until_it_is_mended(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.write("first", more="  oops")
    watched.reload.step()
    while_wrong = watched.reload.is_failing, list(watched.taken)
    watched.path.unlink()
    watched.reload.step()
    watched.write("other")
    watched.reload.step()

    assert while_wrong == (True, [])
    assert "the objectives stay as they were, for the file is wrong: " in caplog.text
    assert (watched.reload.is_failing, watched.taken) == (False, [["other: duration"]])


def test_who_asks_is_told_that_nothing_changed(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.reload.ask()
    watched.reload.step()
    watched.reload.step()

    assert caplog.text.count("the objectives were read again: none has changed") == 1
    assert watched.taken == []


def test_without_a_file_there_is_nothing_to_take_up() -> None:
    reload = ObjectivesReload(None, None)
    reload.ask()
    reload.step()

    assert not reload.is_failing


def test_a_difference_names_what_was_and_what_is() -> None:
    before = [made_objective(), made_objective(name="gone")]
    after = [
        made_objective(threshold_ns=3 * SECOND_NS, target_ratio=0.999, route=None),
        made_objective(name="new"),
    ]

    assert differences(before, after) == [
        "objective gone was removed",
        "objective new was added",
        CHANGED,
    ]
    assert differences(before, before) == []


def test_a_list_without_an_objective_is_a_fault_of_the_file(watched: Watched) -> None:
    watched.path.write_text(
        TEXT.replace("NAME", "first").replace("[{op: lte, value: 2.0, target: 0.99}]", "[]")
    )
    watched.reload.step()
    assert watched.reload.is_failing
    watched.write("first")
    watched.reload.step()
    assert not watched.reload.is_failing


def test_a_fault_of_ours_in_reading_the_file_keeps_the_objectives(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Path) -> None:
        raise LookupError("ours")

    monkeypatch.setattr("latencytrace.service.watch.read_objectives", broken)
    before = watched.reload.objectives
    watched.write("second")
    watched.reload.step()

    assert watched.reload.is_failing
    assert watched.reload.objectives == before
    assert "please report this" in caplog.text
