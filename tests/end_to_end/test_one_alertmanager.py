"""Two incidents on the real Alertmanager, told by the service or by the real Prometheus.

Every tenth scrape fails. Each incident is one page and one resolution, whoever tells it, also
where both could; and the first message of each is of that incident, not of the one before.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, cast
from uuid import uuid4

import httpx
import pytest
import yaml

from latencytrace.analysis.slo.burn_promql import state
from latencytrace.cli.rule_files.prometheus import RuleSettings, rules_document
from latencytrace.model import AlertKind, Severity, Span, SpanKind, Stage, semconv
from latencytrace.model.objective import DAY_NS
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.objectives_yaml import objectives_yaml
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.servers.recording import Received, RecordingServer, Response
from tests.support.servers.running_prometheus import (
    RunningAlertmanager,
    RunningPrometheus,
    alertmanager_config,
)
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

MS = 1_000_000
PATIENCE_S = 120
EVERY_S = 0.5
A_TURN = 10  # requests
# Of a day, so that two minutes are the window of an hour of a month.
OBJECTIVE = made_objective(period_ns=DAY_NS, threshold_ns=SECOND_NS // 5)
STATE = f"count({state(OBJECTIVE, AlertKind.BURN, Severity.PAGE)})"

pytestmark = pytest.mark.timeout(500)


def chat(slow: Stage | None) -> list[Span]:
    """A request of 60 ms; a slow one spends 400 ms more in one stage."""
    trace_id, root_id = uuid4().hex, uuid4().hex[:16]
    end_ns = time.time_ns()
    lengths = {Stage.RETRIEVE: 30 * MS, Stage.DECODE: 30 * MS}
    if slow is not None:
        lengths[slow] += 400 * MS
    start_ns = at_ns = end_ns - sum(lengths.values())
    spans = [one_span(trace_id, root_id, start_ns=start_ns, end_ns=end_ns)]
    for stage, length_ns in lengths.items():
        spans.append(
            one_span(
                trace_id,
                uuid4().hex[:16],
                parent_id=root_id,
                name=stage.value,
                kind=SpanKind.INTERNAL,
                start_ns=at_ns,
                end_ns=at_ns + length_ns,
                attributes={semconv.STAGE: stage.value},
            )
        )
        at_ns += length_ns
    return spans


class Users:
    """Send requests at a steady pace, which are slow as long as that is wished for."""

    def __init__(self, service: RunningService) -> None:
        self.slow: Stage | None = None
        self.slow_traces: dict[str, Stage] = {}
        self._service = service
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopping.wait(EVERY_S):
            slow = self.slow
            requests = [chat(slow) for _ in range(A_TURN)]
            if slow is not None:
                self.slow_traces.update((spans[0].trace_id, slow) for spans in requests)
            self._service.post(otlp(*itertools.chain(*requests)))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


@contextmanager
def scraped(service: RunningService) -> Iterator[str]:
    """Where the metrics of the service are, but for every tenth time."""
    count = itertools.count(1)

    def answer(_: Received) -> Response:
        if next(count) % 10 == 0:
            return Response(status=503)
        with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client:
            found = client.get(f"{service.url}/metrics", headers={"accept": "text/plain"})
        return Response(body=found.content, headers={"content-type": "text/plain; version=0.0.4"})

    with RecordingServer(answer) as server:
        yield server.url


def prometheus_config(folder: Path, target: str, alertmanager: str) -> dict[str, Any]:
    settings = RuleSettings(scrape_ns=SECOND_NS, interval_ns=SECOND_NS, dashboard_url=None)
    rules = folder / "rules.yaml"
    rules.write_text(yaml.safe_dump(rules_document([OBJECTIVE], settings)))
    return {
        "global": {"scrape_interval": "1s"},
        "rule_files": [str(rules)],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": [
            {
                "job_name": "latencytrace",
                "honor_labels": True,
                "static_configs": [{"targets": [target.removeprefix("http://")]}],
            }
        ],
    }


def told(receiver: RecordingServer) -> list[dict[str, Any]]:
    """The messages of pages that Alertmanager sent."""
    documents = cast("list[dict[str, Any]]", list(receiver.documents))
    return [
        one for one in documents if one["commonLabels"].get("alertname") == str(AlertKind.BURN)
    ]


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
            tmp_path / "prom", prometheus_config(tmp_path, target, alertmanager.address)
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
