"""An alert's evidence is of the burn that goes on now, the newest requests first."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from latencytrace.model import (
    BadRequest,
    FailingCall,
    Request,
    RequestStatus,
    Stage,
)
from latencytrace.service.alerting.text import description
from latencytrace.service.objectives.evaluator import Evaluator, SteadyClock
from tests.support.builders.made_objectives import SECOND_NS
from tests.support.builders.made_requests import made_request
from tests.support.builders.traffic import SLOW, Traffic, stamped

SLOW_DECODE = made_request(stages={Stage.RETRIEVE: SECOND_NS // 10, Stage.DECODE: 3 * SECOND_NS})
FAILED = made_request(stages={Stage.RETRIEVE: SECOND_NS // 10})
CALL = FailingCall(name="search", stage=Stage.RETRIEVE, error="Timeout", share_ratio=1.0)


@pytest.fixture
def traffic(tmp_path: Path) -> Traffic:
    traffic = Traffic(tmp_path)
    traffic.run(60, tick_s=30)
    return traffic


def burn(traffic: Traffic, minutes: float, bad: Request, name: str, **more: object) -> None:
    """Let every request be bad in this way, each with a trace id of its own."""
    for place in range(round(minutes * 6)):
        traffic.move(10)
        end_ns = traffic.wall()
        traces = [f"{name}{place:03}{number:02}".ljust(32, "0") for number in range(50)]
        traffic.count([stamped(bad, end_ns, trace_id=trace, **more) for trace in traces])
        traffic.tick()


def test_the_second_of_two_incidents_is_not_blamed_on_the_first(traffic: Traffic) -> None:
    burn(traffic, 6, SLOW, "a")
    traffic.run(8)  # that page ends; its long window still holds the first incident
    burn(traffic, 6, SLOW_DECODE, "b")

    [first, over, second] = traffic.heard
    assert first.evidence.guilty is not None
    assert first.evidence.guilty.stage is Stage.RETRIEVE
    assert over.ended_ns is not None
    assert second.evidence.guilty is not None
    assert second.evidence.guilty.stage is Stage.DECODE
    assert {one.trace_id[0] for one in second.evidence.slowest} == {"b"}
    assert second.onset_ns is not None
    assert second.onset_ns > over.ended_ns


def test_an_incident_that_turns_into_another_is_told_by_its_newest_requests(
    traffic: Traffic,
) -> None:
    burn(traffic, 8, SLOW, "a")
    burn(traffic, 2, SLOW_DECODE, "b")

    [alert] = traffic.evaluator.alerts()
    assert alert.evidence.guilty is not None
    assert alert.evidence.guilty.stage is Stage.DECODE
    assert {one.trace_id[0] for one in alert.evidence.slowest} == {"b"}


def test_a_request_that_is_counted_again_is_shown_once(traffic: Traffic) -> None:
    for place in range(36):
        traffic.move(10)
        traces = [f"a{place:03}{number:02}".ljust(32, "0") for number in range(50)]
        requests = [stamped(SLOW, traffic.wall(), trace_id=trace) for trace in traces]
        traffic.count([one for one in requests for _ in range(2)])
        traffic.tick()

    shown = traffic.heard[0].evidence.slowest
    assert len({one.trace_id for one in shown}) == len(shown) == 3


def test_where_most_requests_failed_the_newest_that_did_are_shown_and_no_stage_is_blamed(
    traffic: Traffic,
) -> None:
    burn(traffic, 1, SLOW, "a")
    burn(traffic, 6, FAILED, "b", status=RequestStatus.ERROR)

    [alert] = traffic.evaluator.alerts()
    assert alert.evidence.guilty is None
    assert alert.evidence.failed_ratio == 1
    assert {one.trace_id[0] for one in alert.evidence.slowest} == {"b"}
    assert {one.status for one in alert.evidence.slowest} == {RequestStatus.ERROR}


@pytest.mark.parametrize(
    ("status", "apart"),
    [
        (RequestStatus.ERROR, [("version", "2")]),
        (RequestStatus.TIMEOUT, [("version", "2"), ("status", "timeout")]),
    ],
)
def test_failed_requests_are_not_set_apart_by_having_failed(
    traffic: Traffic, status: RequestStatus, apart: list[tuple[str, str]]
) -> None:
    burn(traffic, 6, FAILED, "b", status=status, version="2")

    [alert] = traffic.evaluator.alerts()
    found = alert.evidence.distinctions
    assert alert.evidence.failed_ratio == 1
    assert sorted((one.trait, one.value) for one in found) == sorted(apart)


def test_the_failing_call_is_named_instead_of_a_slow_stage(traffic: Traffic) -> None:
    asked: list[Sequence[BadRequest]] = []

    def failing_call(objective: str, requests: Sequence[BadRequest]) -> FailingCall:
        assert objective.startswith("chat-e2e:")
        asked.append(requests)
        return CALL

    traffic.evaluator = Evaluator(
        traffic.objectives,
        SteadyClock(traffic.wall, traffic.monotonic),
        traffic.memory,
        failing_call,
    )
    burn(traffic, 6, FAILED, "b", status=RequestStatus.ERROR)
    [began] = traffic.heard

    assert began.evidence.failing == CALL
    assert asked[0] == began.evidence.slowest
    assert (
        "Failing call: search (retrieve) with Timeout, in 100.0 % of the newest failed requests."
        in description(began)
    )
    assert not any("stage" in line for line in description(began))


def test_requests_that_are_slow_look_up_no_call(traffic: Traffic) -> None:
    def failing_call(*_: object) -> FailingCall:
        raise AssertionError("nobody failed")

    traffic.evaluator = Evaluator(
        traffic.objectives,
        SteadyClock(traffic.wall, traffic.monotonic),
        traffic.memory,
        failing_call,
    )
    burn(traffic, 6, SLOW, "a")

    assert len(traffic.heard) == 1
