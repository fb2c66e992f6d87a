"""Objectives watched by a service that runs: counted, evaluated, remembered, told."""

import random
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from latencytrace.cli.app import app
from latencytrace.model import Span, SpanKind, Stage, StatusCode, semconv
from tests.support.builders.objectives_yaml import objectives_yaml
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.servers.recording import RecordingServer
from tests.support.servers.running_prometheus import RunningAlertmanager
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

pytestmark = pytest.mark.long

MS = 1_000_000
# An incident is paged by the last 140 s and the last 28 min of it: so it may be looked at late.
PERIOD = "14d"
SILENT = {"route": {"receiver": "nobody"}, "receivers": [{"name": "nobody"}]}


def chat(duration_ms: int, ago_s: float = 0) -> list[Span]:
    """A request that ended so long ago, and spent its time in retrieval but for 50 ms."""
    trace_id, root_id = uuid4().hex, uuid4().hex[:16]
    end_ns = time.time_ns() - round(ago_s * 1e9)
    start_ns = end_ns - duration_ms * MS
    root = one_span(trace_id, root_id, start_ns=start_ns, end_ns=end_ns)
    search = one_span(
        trace_id,
        uuid4().hex[:16],
        parent_id=root_id,
        name="search",
        kind=SpanKind.INTERNAL,
        start_ns=start_ns,
        end_ns=end_ns - 50 * MS,
        attributes={semconv.STAGE: Stage.RETRIEVE.value},
    )
    return [root, search]


def failed(ago_s: float) -> list[Span]:
    """A request that ended so long ago, quickly, for its search failed."""
    root, search = (replace(span, status=StatusCode.ERROR) for span in chat(100, ago_s))
    return [root, replace(search, attributes={**search.attributes, semconv.ERROR_TYPE: "Down"})]


def standing(service: RunningService) -> Mapping[str, object]:
    [found] = cast("list[Mapping[str, object]]", service.ask("/objectives")["objectives"])
    return found


def active(alertmanager: RunningAlertmanager) -> list[str]:
    """The objectives that Alertmanager has alerts of."""
    found = alertmanager.client.get(
        f"{alertmanager.url}/api/v2/alerts", params={"active": "true"}
    ).json()
    return [alert["labels"]["slo"] for alert in found]


def sent(service: RunningService, *durations_ms: int) -> None:
    """Send requests, and wait until they are counted."""
    before = service.metric("latencytrace_slo_requests_total")
    service.post(otlp(*(span for duration in durations_ms for span in chat(duration))))
    wanted = before + len(durations_ms)
    until(lambda: service.metric("latencytrace_slo_requests_total") == wanted, service.said)


def test_requests_are_held_to_what_is_promised(tmp_path: Path) -> None:
    promised = objectives_yaml(tmp_path, threshold_s=0.2)
    with RunningService(tmp_path / "data", "--objectives", str(promised)) as service:
        sent(service, 100, 100, 100, 300)
        bad = service.metric("latencytrace_slo_bad_requests_total")
        bucket = service.get("/metrics").text
        said = service.said()

    assert bad == 1
    assert 'latencytrace_request_duration_seconds_bucket{le="0.2"' in bucket
    assert "it watches the objectives of" in said


def test_a_wrong_file_of_objectives_is_refused_by_line(tmp_path: Path) -> None:
    promised = objectives_yaml(tmp_path, target=1.5)
    with RunningService(tmp_path / "data", "--objectives", str(promised), ready=False) as service:
        code, said = service.exit_code(), service.said()

    assert code == 1
    assert "objectives.yaml, line 15: spec.objectives[0].target is 1.5" in said


def incident() -> list[Span]:
    """Half an hour of chat, the last minute of which is slow."""
    return [
        *(span for ago_s in range(60, 1860, 30) for span in chat(100, ago_s)),
        *(span for ago_s in range(0, 60, 2) for span in chat(400, ago_s)),
    ]


def test_an_alert_whose_objective_left_the_file_ends_everywhere(tmp_path: Path) -> None:
    promised = objectives_yaml(tmp_path, threshold_s=0.2, period=PERIOD)
    alertmanager = RunningAlertmanager(tmp_path / "alertmanager", SILENT)
    with RecordingServer() as receiver, alertmanager as taken:
        sinks = {"LATENCYTRACE_SINKS": f"alertmanager={taken.url},webhook={receiver.url}"}
        with RunningService(
            tmp_path / "data", "--objectives", str(promised), env=sinks
        ) as service:
            service.post(otlp(*incident()))
            receiver.wait_for(1)
            until(lambda: active(taken) == ["chat-e2e"], service.said)
            # Killed before it notes that a notice arrived, it would send it again.
            until(
                lambda: service.metric("latencytrace_service_notices_waiting") == 0, service.said
            )
            service.end(signal.SIGKILL)
        with RunningService(tmp_path / "data", env=sinks) as again:
            receiver.wait_for(2)
            until(lambda: active(taken) == [], again.said)

    documents = cast("list[dict[str, dict[str, object]]]", receiver.documents)
    began, ended = (document["alert"] for document in documents)
    assert (began["status"], ended["status"]) == ("firing", "resolved")
    assert ended["fingerprint"] == began["fingerprint"]
    assert ended["end_reason"] == "the objective left the file"


def test_requests_that_fail_name_the_call_that_failed(tmp_path: Path) -> None:
    promised = objectives_yaml(tmp_path, threshold_s=0.2, period=PERIOD)
    well = [span for ago_s in range(60, 1860, 30) for span in chat(100, ago_s)]
    down = [span for ago_s in range(0, 60, 2) for span in failed(ago_s)]
    with RunningService(tmp_path / "data", "--objectives", str(promised)) as service:
        service.post(otlp(*well, *down))
        [alert] = until(
            lambda: cast("list[dict[str, object]]", service.ask("/alerts")["alerts"]), service.said
        )

    assert alert["failing_call"] == {
        "name": "search", "stage": "retrieve", "error": "Down", "share_ratio": 1.0,
    }  # fmt: skip
    assert alert["guilty"] is None
    assert "Failing call: search (retrieve) with Down" in str(alert["description"])


def counted_over_kills(folder: Path) -> tuple[int, Mapping[str, object]]:
    """How many requests were acknowledged by a service that is killed, and what it counted."""
    promised = objectives_yaml(folder, threshold_s=0.2, period="1d")
    flags = ("--objectives", str(promised))
    chance = random.Random(14)
    settling = {"LATENCYTRACE_SETTLE": "0.5"}
    acknowledged = 0

    def posted(service: RunningService) -> None:
        nonlocal acknowledged
        acknowledged += service.post(otlp(*chat(100 if acknowledged % 3 else 300))).is_success

    for _ in range(7):
        with RunningService(folder / "data", *flags, env=settling) as service:
            for _ in range(chance.randint(20, 200)):
                posted(service)
            service.end(signal.SIGKILL)
    with RunningService(folder / "data", *flags, env=settling) as service:
        until(lambda: standing(service)["requests"] == acknowledged, service.said)
        # What was counted twice shows by the time that what came after it is counted.
        posted(service)
        until(lambda: cast(int, standing(service)["requests"]) >= acknowledged, service.said)
        return acknowledged, standing(service)


@pytest.mark.long
def test_kills_neither_lose_nor_double_what_objectives_count(tmp_path: Path) -> None:
    acknowledged, counted = counted_over_kills(tmp_path)

    assert counted["requests"] == acknowledged
    assert counted["bad_requests"] == -(-acknowledged // 3)


def test_an_incident_is_told_once_though_the_service_is_killed(tmp_path: Path) -> None:
    promised = objectives_yaml(tmp_path, threshold_s=0.2, period=PERIOD)
    with RecordingServer() as receiver:
        sinks = {"LATENCYTRACE_SINKS": f"log,webhook={receiver.url}/alerts"}
        flags = ("--objectives", str(promised))
        with RunningService(tmp_path / "data", *flags, env=sinks) as service:
            service.post(otlp(*incident()))
            receiver.wait_for(1)
            [alert] = cast("list[dict[str, object]]", service.ask("/alerts")["alerts"])
            link = cast("list[dict[str, str]]", alert["slowest"])[0]["url"]
            assert "Waterfall" in service.client.get(link).text
            shown = service.client.get(link.replace("/requests/", "/api/v1/requests/")).json()
            until(
                lambda: service.metric("latencytrace_service_notices_waiting") == 0, service.said
            )
            said = service.said()
            service.end(signal.SIGKILL)
        with RunningService(tmp_path / "data", *flags, env=sinks) as again:
            found = standing(again)
            [still] = cast("list[dict[str, object]]", again.ask("/alerts")["alerts"])
            again.end()

    assert len(receiver.documents) == 1
    assert (found["requests"], found["bad_requests"]) == (90, 30)
    assert cast("dict[str, object]", alert["guilty"])["stage"] == "retrieve"
    assert still["fingerprint"] == alert["fingerprint"]
    assert still["guilty"] == alert["guilty"]
    assert len(cast("list[object]", still["slowest"])) == 3
    assert shown["ledger"]["retrieve"] == 350 * MS
    assert "page began: chat-e2e" in said


@pytest.fixture
def hears_hangups() -> Iterator[None]:
    """Have programs hear SIGHUP, though these tests may run where nobody does (`nohup`)."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hears_hangups")
def test_objectives_that_change_are_taken_up_while_the_service_runs(tmp_path: Path) -> None:
    promised = objectives_yaml(tmp_path, threshold_s=0.2)
    with RunningService(tmp_path / "data", "--objectives", str(promised)) as service:
        sent(service, 100, 300)
        promised.write_text(promised.read_text().replace("0.99", "0.999"))
        until(lambda: standing(service)["target_ratio"] == 0.999, service.said)
        kept = standing(service)["requests"], standing(service)["bad_requests"]
        service.process.send_signal(signal.SIGHUP)
        until(lambda: "the objectives were read again: none has changed" in service.said())
        promised.write_text("kind: SLO")
        until(lambda: service.metric("latencytrace_slo_file_failing") == 1, service.said)
        sent(service, 300)
        bad = standing(service)
        said = service.said()

    assert kept == (2, 1)
    assert "target 0.99 is 0.999 now" in said
    assert "the objectives stay as they were, for the file is wrong: " in said
    assert bad["target_ratio"] == 0.999


def test_a_month_is_reported_from_the_service(tmp_path: Path) -> None:
    promised = objectives_yaml(tmp_path, threshold_s=0.2)
    with RunningService(tmp_path / "data", "--objectives", str(promised)) as service:
        sent(service, 100, 300)

        def report() -> str | None:
            said = CliRunner().invoke(app, ["objectives", "--report", "--url", service.url])
            assert said.exit_code == 0, said.output
            return said.stdout if "| 2 | 1 | 50 % | **no** |" in said.stdout else None

        found = until(report, service.said)

    assert found.startswith("# Objectives in ")
    assert "| day (UTC) | requests | bad |" in found


def test_maintenance_that_was_asked_for_is_shown_guarded_and_outlives_the_service(
    tmp_path: Path,
) -> None:
    promised = objectives_yaml(tmp_path, threshold_s=0.2)
    wanted = {"name": "new-cards", "duration": "2h", "objectives": ["chat-e2e"]}
    with RunningService(tmp_path / "data", "--objectives", str(promised)) as service:
        path = f"{service.url}/api/v1/maintenance"
        evil = service.client.post(path, json=wanted, headers={"origin": "http://evil.example"})
        begun = service.client.post(path, json=wanted)
        service.end(signal.SIGKILL)
    with RunningService(tmp_path / "data", "--objectives", str(promised)) as service:
        page = service.get("/objectives").text
        service.post(otlp(*chat(300)))
        until(lambda: service.metric("latencytrace_requests_total") == 1, service.said)
        counted = service.metric("latencytrace_slo_requests_total")
        is_on = service.metric("latencytrace_slo_maintenance")

    assert (evil.status_code, begun.status_code) == (403, 201)
    assert "<strong>new-cards</strong>, now" in page
    assert (counted, is_on) == (0, 1)
