"""Alerts as documents and in words."""

import pytest
from pydantic import TypeAdapter

from latencytrace.model import Alert
from latencytrace.service.alerting.document import AlertLinks, alert_document, objective_document
from latencytrace.service.alerting.text import summary
from latencytrace.service.answers.documents import AlertDocument, ObjectiveDocument
from tests.support.builders.traffic import START_NS, Traffic

HERE = AlertLinks(service="http://127.0.0.1:8321", dashboard=None)
GRAFANA = AlertLinks(service="http://lt:8321", dashboard="http://grafana/d/slo?orgId=1")


@pytest.fixture(scope="module")
def fired(tmp_path_factory: pytest.TempPathFactory) -> tuple[Alert, Alert]:
    """An alert when it began, and when it had ended."""
    traffic = Traffic(tmp_path_factory.mktemp("fired"))
    traffic.run(60, tick_s=60)
    traffic.until_firing(1.0)
    traffic.run(20)
    began, ended = traffic.heard
    return began, ended


def test_it_says_what_and_how_bad_in_a_line(fired: tuple[Alert, Alert]) -> None:
    assert summary(fired[0]) == (
        "chat-e2e: 29.0 % of POST /chat took over 2.00 s or failed in the last 15 min, "
        "burning budget 29.0\N{MULTIPLICATION SIGN} too fast"
    )


def test_it_says_why_and_what_is_left(fired: tuple[Alert, Alert]) -> None:
    said = alert_document(fired[0], HERE)["description"]

    assert said[0] == "Since about 2025-11-21 02:53:30 UTC."
    assert said[1].startswith("Budget left: ")
    assert said[1].endswith(" at this rate.")
    assert said[2] == (
        "Slow stage: retrieve, 1.90 s more than in good requests, 100.0 % of the extra time."
    )
    assert not any("1.0" in line for line in said)  # of which good requests were, too


def test_it_shows_three_slow_requests(fired: tuple[Alert, Alert]) -> None:
    document = alert_document(fired[0], HERE)

    assert [one["summary"] for one in document["slowest"]] == ["3.00 s (ok), retrieve 2.00 s"] * 3
    assert document["slowest"][0]["url"].startswith("http://127.0.0.1:8321/requests/")


def test_its_end_says_how_long_it_lasted(fired: tuple[Alert, Alert]) -> None:
    document = alert_document(fired[1], HERE)

    assert document["status"] == "resolved"
    assert document["summary"].startswith("chat-e2e: POST /chat meets its objective again; ")
    assert document["ended"] is not None


def test_it_links_to_the_breakdown_of_its_time(fired: tuple[Alert, Alert]) -> None:
    began, ended = (alert_document(alert, HERE)["url"] for alert in fired)

    assert began.startswith("http://127.0.0.1:8321/breakdown?service=rag&route=POST+%2Fcha")
    assert "&until=" in ended
    assert "&until=" not in began


def test_it_links_to_the_dashboard_with_its_time_range(fired: tuple[Alert, Alert]) -> None:
    url = alert_document(fired[0], GRAFANA)["url"]

    since_ms = (fired[0].started_ns - 30 * 60 * 10**9) // 10**6
    assert fired[0].started_ns > START_NS
    assert url.startswith(f"http://grafana/d/slo?orgId=1&from={since_ms}&to=now&var-slo=chat-e2e&")


def test_the_documents_are_as_described(fired: tuple[Alert, Alert]) -> None:
    alert, objective = TypeAdapter(AlertDocument), TypeAdapter(ObjectiveDocument)

    alert.validate_python(alert_document(fired[0], HERE), strict=True)
    objective.validate_python(objective_document(fired[0].standing), strict=True)
