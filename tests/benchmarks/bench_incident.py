"""An incident of ten real minutes, told by the service and by Prometheus: who is sent what, when.

An objective of 30 days, 20 requests a second, a real service, Prometheus (scrapes every 15 s, of
which every tenth fails, and evaluations every 30 s) and Alertmanager (waits of its own as it
comes: 30 s, then 5 min between messages of a group). Twice at once: where the service sends its
alerts to the Alertmanager that Prometheus sends to, and where Prometheus alone does. It takes
forty minutes; what is not one page and one resolution each is an error.

    python tests/benchmarks/bench_incident.py [MINUTES_BEFORE] [MINUTES_AFTER]
"""

import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from latencytrace.cli.rule_files.prometheus import RuleSettings
from latencytrace.model import Stage
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.objectives_yaml import objectives_yaml
from tests.support.servers.recording import Received, RecordingServer, Response
from tests.support.servers.running_prometheus import (
    RunningAlertmanager,
    RunningPrometheus,
    alertmanager_config,
)
from tests.support.servers.running_service import RunningService
from tests.support.simulation.live_incident import (
    Users,
    prometheus_config,
    scraped,
)

INCIDENT_MIN = 10
OBJECTIVE = made_objective(threshold_ns=SECOND_NS // 5)
SETTINGS = RuleSettings(scrape_ns=15 * SECOND_NS, interval_ns=30 * SECOND_NS, dashboard_url=None)


@dataclass(slots=True)
class Told:
    """What Alertmanager sent, and how long after the incident began."""

    began_s: float = 0.0
    messages: list[str] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)

    def take(self, received: Received) -> Response:
        """Note a message."""
        document = received.document
        assert isinstance(document, dict)
        minutes = (time.monotonic() - self.began_s) / 60
        self.statuses.append(document["status"])
        for alert in document["alerts"]:
            labels, annotations = alert["labels"], alert["annotations"]
            who = labels.get("evaluator", "the service")
            stage = annotations.get("guilty_stage", "-")
            self.messages.append(
                f"{minutes:.1f} min: {alert['status']} {labels['alertname']} "
                f"({labels['severity']}) by {who}, guilty stage {stage}"
            )
        return Response()


def incident(sinks: str, told: Told, folder: Path, minutes: tuple[float, float]) -> None:
    """Live through it once.

    Args:
        sinks: `alertmanager`, or `log`.
        told: What was sent.
        folder: Holds the data.
        minutes: Before the incident and after it.
    """
    before, after = minutes
    with ExitStack() as opened:
        receiver = opened.enter_context(RecordingServer(told.take))
        config = alertmanager_config(receiver.url, group_wait="30s", group_interval="5m")
        alertmanager = opened.enter_context(RunningAlertmanager(folder / "am", config))
        sent_to = f"alertmanager={alertmanager.url}" if sinks == "alertmanager" else sinks
        service = opened.enter_context(
            RunningService(
                folder / "data",
                *("--objectives", str(objectives_yaml(folder, threshold_s=0.2))),
                env={"LATENCYTRACE_SINKS": sent_to},
            )
        )
        target = opened.enter_context(scraped(service))
        asked = prometheus_config(folder, target, alertmanager.address, OBJECTIVE, SETTINGS)
        opened.enter_context(RunningPrometheus(folder / "prom", asked))
        users = opened.enter_context(Users(service))
        time.sleep(before * 60)
        told.began_s, users.slow = time.monotonic(), Stage.RETRIEVE
        time.sleep(INCIDENT_MIN * 60)
        users.slow = None
        time.sleep(after * 60)


def main(before: float, after: float) -> None:
    """Live through it both ways, and say what was sent."""
    with TemporaryDirectory() as made:
        told = {"alertmanager": Told(), "log": Told()}
        threads = []
        for sinks, one in told.items():
            folder = Path(made, sinks)
            folder.mkdir()
            threads.append(
                threading.Thread(target=incident, args=(sinks, one, folder, (before, after)))
            )
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for sinks, one in told.items():
        sys.stdout.write(f"LATENCYTRACE_SINKS={sinks}\n")
        sys.stdout.writelines(f"  {message}\n" for message in one.messages)
    if any(one.statuses != ["firing", "resolved"] for one in told.values()):
        sys.exit("not one page and one resolution each")


if __name__ == "__main__":
    given = [float(argument) for argument in sys.argv[1:3]]
    main(*given, *[6.0, 24.0][len(given) :])
