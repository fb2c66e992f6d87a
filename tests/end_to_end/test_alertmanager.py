"""What our sink sends, as the real Alertmanager takes it."""

from collections.abc import Iterator
from pathlib import Path
from time import time_ns
from typing import Any

import pytest

from latencytrace.service.sink import Transition
from latencytrace.service.sinks.alertmanager import AlertmanagerSink
from tests.support.builders.made_objectives import SECOND_NS
from tests.support.builders.notices import made_alert, made_notice
from tests.support.servers.running_prometheus import RunningAlertmanager

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
