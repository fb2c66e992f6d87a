"""What our sink sends, as the real Alertmanager takes it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import time_ns
from typing import Any

import pytest

from latencytrace.model import GuiltyStage, Stage
from latencytrace.service.sink import Transition
from latencytrace.service.sinks.alertmanager import AlertmanagerSink
from tests.support.builders.made_objectives import SECOND_NS
from tests.support.builders.notices import made_alert, made_notice
from tests.support.servers.recording import RecordingServer
from tests.support.servers.running_prometheus import RunningAlertmanager, alertmanager_config
from tests.support.simulation.live_incident import told
from tests.support.waiting import until

DECODE = GuiltyStage(stage=Stage.DECODE, excess_ns=SECOND_NS, share_ratio=0.9)
CONFIG = {"route": {"receiver": "nobody"}, "receivers": [{"name": "nobody"}]}


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[RunningAlertmanager]:
    """A fresh one."""
    with RunningAlertmanager(tmp_path / "alertmanager", CONFIG) as running:
        yield running


def alerts(alertmanager: RunningAlertmanager) -> list[dict[str, Any]]:
    """What fires."""
    found: list[dict[str, Any]] = alertmanager.client.get(
        f"{alertmanager.url}/api/v2/alerts", params={"active": "true"}
    ).json()
    return found


def test_an_alert_is_there_from_its_beginning_to_its_end(
    alertmanager: RunningAlertmanager,
) -> None:
    now_ns = time_ns()
    alert = made_alert(started_ns=now_ns - 90 * SECOND_NS)
    ended = made_alert(started_ns=alert.started_ns, ended_ns=now_ns - SECOND_NS)
    sink = AlertmanagerSink.open(alertmanager.url)
    for transition in (Transition.BEGAN, Transition.CONTINUES):
        sink.send(made_notice(transition, "alertmanager", alert), now_ns)
    while_firing = alerts(alertmanager)
    sink.send(made_notice(Transition.ENDED, "alertmanager", ended), now_ns)

    [one] = while_firing
    assert one["labels"] == dict(alert.labels)
    assert one["annotations"]["guilty_stage"] == "retrieve"
    assert alerts(alertmanager) == []


def test_alertmanager_learns_again_what_it_forgot_in_a_restart(tmp_path: Path) -> None:
    now_ns = time_ns()
    alert = made_alert(started_ns=now_ns - 90 * SECOND_NS)
    notice = made_notice(Transition.CONTINUES, "alertmanager", alert)
    starts = []
    for _ in range(2):
        with RunningAlertmanager(tmp_path / "alertmanager", CONFIG) as running:
            AlertmanagerSink.open(running.url).send(notice, now_ns)
            starts += [one["startsAt"] for one in alerts(running)]

    assert len(starts) == 2
    assert starts[0] == starts[1]


def test_two_services_with_names_are_one_page_until_both_are_well(tmp_path: Path) -> None:
    """Neither ends the other's alert, nor writes over what it says."""

    def states(message: dict[str, Any]) -> dict[str, tuple[str, str]]:
        return {
            one["labels"]["evaluator"]: (one["status"], one["annotations"]["guilty_stage"])
            for one in message["alerts"]
        }

    with (
        RecordingServer() as receiver,
        RunningAlertmanager(
            tmp_path / "am", alertmanager_config(receiver.url, group_wait="15s")
        ) as running,
    ):
        alert = made_alert(started_ns=time_ns())  # of one longer ago it tells at once
        other = replace(alert, evidence=replace(alert.evidence, guilty=DECODE))
        alerts_of = {"eu-1": alert, "eu-2": other}
        sinks = {
            name: AlertmanagerSink.open(f"{running.url}?evaluator={name}") for name in alerts_of
        }

        def send(name: str, transition: Transition) -> None:
            ended_ns = time_ns() if transition is Transition.ENDED else None
            told_one = replace(alerts_of[name], ended_ns=ended_ns)
            sinks[name].send(made_notice(transition, "alertmanager", told_one), time_ns())

        for transition in (Transition.BEGAN, Transition.CONTINUES):
            for name in sinks:
                send(name, transition)
        until(lambda: told(receiver), running.said)
        send("eu-1", Transition.ENDED)
        until(lambda: states(told(receiver)[-1])["eu-1"][0] == "resolved", running.said)
        send("eu-2", Transition.ENDED)
        until(lambda: told(receiver)[-1]["status"] == "resolved", running.said)

    first, *others, last = told(receiver)
    assert states(first) == {"eu-1": ("firing", "retrieve"), "eu-2": ("firing", "decode")}
    assert others
    assert [one["status"] for one in others] == ["firing"] * len(others)
    assert states(others[-1])["eu-2"] == ("firing", "decode")
    assert states(last)["eu-2"] == ("resolved", "decode")
