"""A page whose cause turns out to be another one is sent again, under the same identity."""

from dataclasses import replace
from pathlib import Path

import pytest

from latencytrace.model import Alert, FailingCall, GuiltyStage, Stage
from latencytrace.service.alerting.amendments import Amendments
from latencytrace.service.alerting.outbox import Outbox
from latencytrace.service.objectives.memory import ObjectiveMemory
from latencytrace.service.sink import Transition
from tests.support.builders.made_objectives import SECOND_NS
from tests.support.builders.notices import LINKS, made_alert
from tests.support.builders.traffic import START_NS
from tests.support.fakes.contracts import FakeClock, RecordingSink


def blaming(stage: Stage | None, share_ratio: float = 0.9) -> Alert:
    """An alert that fires, and names a stage."""
    alert = made_alert()
    guilty = stage and GuiltyStage(stage=stage, excess_ns=SECOND_NS, share_ratio=share_ratio)
    return replace(alert, evidence=replace(alert.evidence, guilty=guilty or None))


RETRIEVE, DECODE, NOBODY = (blaming(stage) for stage in (Stage.RETRIEVE, Stage.DECODE, None))


class Told:
    """What is amended, second by second."""

    def __init__(self) -> None:
        self.clock = FakeClock(START_NS)
        self.amendments = Amendments(self.clock)

    def after(self, seconds: int, alert: Alert) -> list[int]:
        """The seconds in which it is amended."""
        amended = []
        for second in range(seconds):
            if self.amendments.due([alert]):
                amended.append(second)
            self.clock.move_s(1)
        return amended


@pytest.fixture
def told() -> Told:
    return Told()


def test_what_stays_the_same_is_said_once(told: Told) -> None:
    assert told.after(1000, RETRIEVE) == []


def test_another_cause_is_said_once_it_is_sure(told: Told) -> None:
    told.after(5, RETRIEVE)

    assert told.after(1000, DECODE) == [30]


def test_a_cause_that_was_not_known_is_said_when_it_is(told: Told) -> None:
    told.after(5, NOBODY)

    assert told.after(100, RETRIEVE) == [30]


def test_a_cause_that_is_not_known_any_more_takes_nothing_back(told: Told) -> None:
    told.after(5, RETRIEVE)

    assert told.after(100, NOBODY) == []


def test_a_cause_that_goes_back_and_forth_is_not_said_at_every_turn(told: Told) -> None:
    told.after(5, RETRIEVE)
    said = [told.after(40, alert) for _ in range(10) for alert in (DECODE, RETRIEVE)]

    assert sum(map(len, said)) == 3  # in 800 seconds


def test_no_stage_to_blame_is_another_cause_than_a_guilty_one(told: Told) -> None:
    told.after(5, RETRIEVE)

    assert told.after(100, blaming(Stage.RETRIEVE, 0.4)) == [30]


def test_a_failing_call_is_another_cause_than_a_slow_stage(told: Told) -> None:
    call = FailingCall(name="search", stage=Stage.RETRIEVE, error=None, share_ratio=1.0)
    failing = replace(RETRIEVE.evidence, guilty=None, failed_ratio=0.9, failing=call)
    told.after(5, RETRIEVE)

    assert told.after(100, replace(RETRIEVE, evidence=failing)) == [30]


def test_after_a_restart_nothing_is_said_again() -> None:
    assert Told().after(1000, DECODE) == []


def test_an_amendment_has_the_identity_of_its_alert_and_a_key_of_its_own(tmp_path: Path) -> None:
    clock, sink = FakeClock(START_NS), RecordingSink()
    memory = ObjectiveMemory.open(tmp_path, clock())
    outbox = Outbox({"it": sink}, LINKS, memory, clock, clock, lambda: 1.0)
    outbox.add(outbox.notifications([RETRIEVE]))
    clock.move_s(60)
    outbox.add(outbox.notifications([], [DECODE]))
    while outbox.step("it"):
        pass
    memory.close()

    began, amended = sink.sent
    assert amended.transition is Transition.CONTINUES
    assert amended.alert["fingerprint"] == began.alert["fingerprint"]
    assert amended.alert["labels"] == began.alert["labels"]
    assert amended.key != began.key
    assert amended.alert["guilty"] is not None
    assert amended.alert["guilty"]["stage"] == "decode"
