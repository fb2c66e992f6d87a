"""Each sink posts a notification in its own form."""

from typing import cast

from latencytrace.service.sink import Notification, Transition
from latencytrace.service.sinks.alertmanager import AlertmanagerSink
from latencytrace.service.sinks.slack import SlackSink
from latencytrace.service.sinks.webhook import WebhookSink
from tests.support.builders.made_objectives import SECOND_NS
from tests.support.builders.notices import made_notice
from tests.support.builders.traffic import START_NS
from tests.support.servers.recording import RecordingServer

LATER_NS = START_NS + 120 * SECOND_NS


def posted(sink: type, notice: Notification) -> tuple[object, RecordingServer]:
    with RecordingServer() as receiver:
        sink.open(f"{receiver.url}/path").send(notice, LATER_NS)  # type: ignore[attr-defined] # any of ours
    return receiver.documents[0], receiver


def alertmanager(transition: Transition) -> dict[str, object]:
    document, receiver = posted(AlertmanagerSink, made_notice(transition))
    assert [post.target for post in receiver.received] == ["/path/api/v2/alerts"]
    [alert] = cast("list[dict[str, object]]", document)
    return alert


def test_a_webhook_gets_the_document_and_an_idempotency_key() -> None:
    notice = made_notice()
    document, receiver = posted(WebhookSink, notice)

    assert document == {"version": 1, "transition": "began", "alert": notice.alert}
    assert receiver.received[0].headers["idempotency-key"] == notice.key


def test_alertmanager_is_told_when_an_alert_began_and_that_it_lasts() -> None:
    alert = alertmanager(Transition.BEGAN)

    assert alert["startsAt"] == "2025-11-21T01:53:20+00:00"
    assert alert["endsAt"] == "2025-11-21T01:59:20+00:00"


def test_alertmanager_is_told_the_end() -> None:
    assert alertmanager(Transition.ENDED)["endsAt"] == "2025-11-21T01:54:20+00:00"


def test_an_end_is_told_even_where_the_clock_was_set_back_an_hour() -> None:
    with RecordingServer() as receiver:
        before_ns = START_NS - 3600 * SECOND_NS
        AlertmanagerSink.open(receiver.url).send(made_notice(Transition.ENDED), before_ns)

    [[alert]] = cast("list[list[dict[str, str]]]", receiver.documents)
    assert alert["startsAt"] == alert["endsAt"] == "2025-11-21T00:53:20+00:00"


def test_labels_for_alertmanager_are_the_same_from_beginning_to_end() -> None:
    began, ended = alertmanager(Transition.BEGAN), alertmanager(Transition.ENDED)

    assert began["labels"] == ended["labels"]
    assert began["labels"] == {
        "alertname": "LatencySLOBurn",
        "slo": "chat-e2e",
        "service": "rag",
        "route": "POST /chat",
        "severity": "page",
    }


def test_alertmanager_gets_the_cause_as_annotations() -> None:
    annotations = cast("dict[str, str]", alertmanager(Transition.CONTINUES)["annotations"])

    assert annotations["guilty_stage"] == "retrieve"
    assert annotations["trace_1"].endswith(" 3.00 s (ok), retrieve 2.00 s")
    assert set(annotations) >= {"summary", "description", "dashboard_url", "trace_3", "version"}


def test_slack_gets_a_message_with_links_and_nothing_that_it_would_read_as_markup() -> None:
    document, _ = posted(SlackSink, made_notice())

    [block] = cast("dict[str, list[dict[str, dict[str, str]]]]", document)["blocks"]
    text = block["text"]["text"]
    assert text.startswith(":rotating_light: *page began*: chat-e2e: 20.0 % of POST /chat")
    assert "Who: version 1.0 &lt;beta&gt;, 80.0 % of bad requests" in text
    assert text.count("|0af76519>") == 3


def test_slack_is_told_of_an_end_in_two_lines() -> None:
    document, _ = posted(SlackSink, made_notice(Transition.ENDED))

    [block] = cast("dict[str, list[dict[str, dict[str, str]]]]", document)["blocks"]
    assert block["text"]["text"].count("\n") == 1


def test_a_long_message_of_slack_ends_with_a_whole_line() -> None:
    notice = made_notice()
    notice.alert["description"] = [f"Who: <{place}> & more" for place in range(99)]
    document, _ = posted(SlackSink, notice)

    [block] = cast("dict[str, list[dict[str, dict[str, str]]]]", document)["blocks"]
    assert len(block["text"]["text"]) <= 3000
    assert block["text"]["text"].endswith("&gt; &amp; more")
