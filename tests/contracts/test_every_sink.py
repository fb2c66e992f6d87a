"""What every sink promises, wherever it sends to."""

import logging

import pytest

from latencytrace.errors import SettingsError, SinkError
from latencytrace.plugins import SINKS, load_plugin, plugins
from latencytrace.service.net import http_post
from latencytrace.service.sink import Sink, Transition
from latencytrace.service.watch import open_sink
from tests.contracts.conftest import EXAMPLES
from tests.support.builders.notices import made_notice
from tests.support.builders.traffic import START_NS
from tests.support.servers.ports import free_port
from tests.support.servers.recording import RecordingServer, Response

NAMES = [*(plugin.name for plugin in plugins(SINKS)), *EXAMPLES[SINKS]]
POSTING = [name for name in NAMES if name != "log"]
UNUSABLE = {
    "none": ("", "is missing"),
    "a word": ("nowhere", "does not begin with http"),
    "another scheme": ("ftp://host/", "does not begin with http"),
    "no host": ("http://", "and a host"),
    "a port too high": ("http://h:99999/", "a port that is no number from 1 to 65535"),
    "port 0": ("http://h:0/", "a port that is no number"),
    "a port in letters": ("http://h:http/", "a port that is no number"),
    "a password with a slash": ("http://me:hu/hush@h/", "in a password, / is %2F"),
    "half an IPv6 address": ("http://[::1/", "brackets without an IPv6"),
    "an empty part": ("http://me:hush@a..b/", "a host that can be no name"),
    "a part too long": (f"http://{'a' * 64}.org/", "a host that can be no name"),
    "a space in the host": ("http://a b/hush", "a host that can be no name"),
    "a space in the path": ("http://h/a hush", "written as %20"),
    "letters beyond ASCII": ("http://h/hush/ü", "written as %20"),
}
USABLE = [
    "http://127.0.0.1:65535", "https://me:hu%2Fsh@am.example.org/", "http://[::1]:9093/",
    "http://köln.example:1/a%20b",
]  # fmt: skip


def opened(name: str, address: str) -> Sink:
    sink: Sink = load_plugin(SINKS, name).open(address)  # type: ignore[attr-defined] # as the app does
    return sink


@pytest.mark.parametrize("transition", list(Transition))
@pytest.mark.parametrize("name", POSTING)
def test_a_notice_is_posted_once(name: str, transition: Transition) -> None:
    with RecordingServer() as receiver:
        opened(name, receiver.url).send(made_notice(transition), START_NS)

    assert len(receiver.documents) == 1
    assert "chat-e2e" in str(receiver.documents)


@pytest.mark.parametrize("status", [302, 400, 404, 500, 503])
@pytest.mark.parametrize("name", POSTING)
def test_a_refusal_is_reported(name: str, status: int) -> None:
    with (
        RecordingServer(Response(status, headers={"Location": "/elsewhere"})) as receiver,
        pytest.raises(SinkError, match=rf"127\.0\.0\.1 answered {status}"),
    ):
        opened(name, receiver.url).send(made_notice(), START_NS)


@pytest.mark.parametrize("name", POSTING)
def test_who_does_not_listen_is_reported(name: str) -> None:
    gone = f"http://127.0.0.1:{free_port()}"

    with pytest.raises(SinkError, match=r"127\.0\.0\.1 does not answer"):
        opened(name, gone).send(made_notice(), START_NS)


@pytest.mark.parametrize("name", POSTING)
def test_who_hangs_is_given_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_post, "TIMEOUT_S", 0.2)

    with RecordingServer() as receiver:
        receiver.release.clear()
        with pytest.raises(SinkError, match="timed out"):
            opened(name, receiver.url).send(made_notice(), START_NS)


@pytest.mark.parametrize("name", POSTING)
def test_a_secret_in_an_address_is_never_told(name: str) -> None:
    with RecordingServer(Response(500)) as receiver, pytest.raises(SinkError) as refused:
        opened(name, f"http://me:hush@{receiver.host}/secret").send(made_notice(), START_NS)

    assert "secret" not in str(refused.value)
    assert "hush" not in str(refused.value)
    assert receiver.received[0].headers["authorization"] == "Basic bWU6aHVzaA=="


@pytest.mark.parametrize(("address", "says"), UNUSABLE.values(), ids=UNUSABLE)
@pytest.mark.parametrize("name", POSTING)
def test_what_is_no_address_is_refused_with_the_setting_and_its_form(
    name: str, address: str, says: str
) -> None:
    with pytest.raises(SettingsError, match=says) as refused:
        open_sink(name, address)

    assert str(refused.value).startswith(f"LATENCYTRACE_SINKS: '{name}': its address ")
    assert f"write {name}=http" in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("address", USABLE)
@pytest.mark.parametrize("name", POSTING)
def test_what_is_an_address_is_taken(name: str, address: str) -> None:
    assert open_sink(name, address).ends


def test_the_log_has_no_address() -> None:
    with pytest.raises(SettingsError, match=r"LATENCYTRACE_SINKS: 'log': .* write `log` alone"):
        open_sink("log", "http://127.0.0.1")


def test_the_slash_at_the_end_of_a_webhooks_path_is_its_own() -> None:
    with RecordingServer() as receiver:
        opened("webhook", f"{receiver.url}/hook/").send(made_notice(), START_NS)

    assert receiver.received[0].target == "/hook/"


@pytest.mark.parametrize(
    "query",
    ["?a=b", "#am", "?", "?evaluator=", "?evaluator=a&b=c", "?evaluator=a%20b", "?evaluator=a#b"],
)
def test_alertmanager_takes_a_base_address_and_a_name_only(query: str) -> None:
    with pytest.raises(SettingsError, match="more than a base address: write alertmanager="):
        open_sink("alertmanager", f"http://127.0.0.1:9093/{query}")


def test_a_service_is_not_named_as_the_rules_of_prometheus_are() -> None:
    with pytest.raises(SettingsError, match="name this service otherwise"):
        open_sink("alertmanager", "http://127.0.0.1:9093?evaluator=prometheus")


def test_the_log_says_it_all(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        opened("log", "").send(made_notice(), START_NS)

    assert "page began: chat-e2e: 20 % of POST /chat" in caplog.text
    assert "Guilty stage: retrieve" in caplog.text
    assert caplog.text.count("Slow: http://127.0.0.1:8321/requests/") == 3
