"""Two incidents on the real Alertmanager, told by the service or by the real Prometheus.

Every tenth scrape fails. Each incident is one page and one resolution, whoever tells it, also
where both could; and the first message of each is of that incident, not of the one before.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from latencytrace.analysis.slo.burn_promql import state
from latencytrace.cli.rule_files.prometheus import RuleSettings
from latencytrace.model import AlertKind, Severity, Stage
from latencytrace.model.objective import DAY_NS
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.objectives_yaml import objectives_yaml
from tests.support.servers.recording import RecordingServer
from tests.support.servers.running_prometheus import (
    RunningAlertmanager,
    RunningPrometheus,
    alertmanager_config,
)
from tests.support.servers.running_service import RunningService
from tests.support.simulation.live_incident import (
    A_TURN,
    Users,
    prometheus_config,
    scraped,
    told,
)
from tests.support.waiting import until

PATIENCE_S = 120
# Of a day, so that two minutes are the window of an hour of a month.
OBJECTIVE = made_objective(period_ns=DAY_NS, threshold_ns=SECOND_NS // 5)
SETTINGS = RuleSettings(scrape_ns=SECOND_NS, interval_ns=SECOND_NS, dashboard_url=None)
STATE = f"count({state(OBJECTIVE, AlertKind.BURN, Severity.PAGE)})"

pytestmark = pytest.mark.timeout(500)


def wait_for(receiver: RecordingServer, count: int, service: RunningService) -> None:
    """Wait until so many of them have come."""
    until(lambda: len(told(receiver)) >= count, service.said, PATIENCE_S)


Check = Callable[[dict[str, Any], Stage, Users], None]


def of_the_service(message: dict[str, Any], stage: Stage, users: Users) -> None:
    """Its message names the stage and shows requests of this incident."""
    [alert] = message["alerts"]
    annotations = alert["annotations"]
    shown = [annotations[f"trace_{place}"] for place in (1, 2, 3)]
    traces = [link.partition("/requests/")[2].partition("?")[0] for link in shown]
    assert "evaluator" not in alert["labels"]
    assert annotations["guilty_stage"] == stage
    assert [users.slow_traces.get(trace_id) for trace_id in traces] == [stage] * 3


def of_prometheus(message: dict[str, Any], stage: Stage, users: Users) -> None:
    """Its message says who evaluated."""
    [alert] = message["alerts"]
    assert alert["labels"]["evaluator"] == "prometheus"
    assert stage in set(users.slow_traces.values())


@pytest.mark.parametrize(
    ("service_tells", "check"),
    [(True, of_the_service), (False, of_prometheus)],
    ids=["the service, and Prometheus beside it", "Prometheus alone"],
)
def test_each_of_two_incidents_is_one_page_and_one_resolution(
    tmp_path: Path, *, service_tells: bool, check: Check
) -> None:
    promised = objectives_yaml(tmp_path, threshold_s=0.2, period="1d")
    with (
        RecordingServer() as receiver,
        RunningAlertmanager(tmp_path / "am", alertmanager_config(receiver.url)) as alertmanager,
        RunningService(
            tmp_path / "data",
            *("--objectives", str(promised)),
            env={
                "LATENCYTRACE_SINKS": f"alertmanager={alertmanager.url}"
                if service_tells
                else "log"
            },
        ) as service,
        scraped(service) as target,
        RunningPrometheus(
            tmp_path / "prom",
            prometheus_config(tmp_path, target, alertmanager.address, OBJECTIVE, SETTINGS),
        ) as prometheus,
        Users(service) as users,
    ):
        until(
            lambda: (prometheus.value("latencytrace_slo_requests_total") or 0) >= 10 * A_TURN,
            service.said,
        )
        for number, stage in enumerate((Stage.RETRIEVE, Stage.DECODE)):
            users.slow = stage
            wait_for(receiver, 2 * number + 1, service)
            until(lambda: prometheus.value(STATE) == 1, service.said, PATIENCE_S)
            users.slow = None
            wait_for(receiver, 2 * number + 2, service)
            until(lambda: prometheus.value(STATE) is None, service.said, PATIENCE_S)

    messages = told(receiver)
    assert [one["status"] for one in messages] == ["firing", "resolved"] * 2
    check(messages[0], Stage.RETRIEVE, users)
    check(messages[2], Stage.DECODE, users)
