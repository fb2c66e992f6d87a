"""What every sink promises, wherever it sends to."""

import logging

import pytest

from latencytrace.errors import SettingsError, SinkError
from latencytrace.plugins import SINKS, load_plugin, plugins
from latencytrace.service import http_post
from latencytrace.service.sink import Sink, Transition
from tests.service.notices import made_notice
from tests.service.posted import Posted
from tests.service.traffic import START_NS

NAMES = [plugin.name for plugin in plugins(SINKS)]
POSTING = [name for name in NAMES if name != "log"]


def opened(name: str, address: str) -> Sink:
    sink: Sink = load_plugin(SINKS, name).open(address)  # type: ignore[attr-defined] # as the app does
    return sink


@pytest.mark.parametrize("transition", list(Transition))
@pytest.mark.parametrize("name", POSTING)
def test_a_notice_is_posted_once(name: str, transition: Transition) -> None:
    with Posted() as receiver:
        opened(name, receiver.url).send(made_notice(transition), START_NS)

    assert len(receiver.documents) == 1
    assert "chat-e2e" in str(receiver.documents)


@pytest.mark.parametrize("status", [302, 400, 404, 500, 503])
@pytest.mark.parametrize("name", POSTING)
def test_a_refusal_is_reported(name: str, status: int) -> None:
    with (
        Posted(status) as receiver,
        pytest.raises(SinkError, match=rf"127\.0\.0\.1 answered {status}"),
    ):
        opened(name, receiver.url).send(made_notice(), START_NS)


@pytest.mark.parametrize("name", POSTING)
def test_who_does_not_listen_is_reported(name: str) -> None:
    with Posted() as receiver:
        gone = receiver.url

    with pytest.raises(SinkError, match=r"127\.0\.0\.1 does not answer"):
        opened(name, gone).send(made_notice(), START_NS)


@pytest.mark.parametrize("name", POSTING)
def test_who_hangs_is_given_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_post, "TIMEOUT_S", 0.2)

    with Posted(hangs=True) as receiver, pytest.raises(SinkError, match="timed out"):
        opened(name, receiver.url).send(made_notice(), START_NS)


@pytest.mark.parametrize("name", POSTING)
def test_a_secret_in_an_address_is_never_told(name: str) -> None:
    with Posted(500) as receiver, pytest.raises(SinkError) as refused:
        opened(name, f"http://me:hush@{receiver.host}/secret").send(made_notice(), START_NS)

    assert "secret" not in str(refused.value)
    assert "hush" not in str(refused.value)
    assert receiver.headers[0]["authorization"] == "Basic bWU6aHVzaA=="


@pytest.mark.parametrize("address", ["", "nowhere", "ftp://host/", "http://"])
@pytest.mark.parametrize("name", POSTING)
def test_what_is_no_address_is_refused_with_an_example(name: str, address: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}=http"):
        opened(name, address)


def test_the_log_has_no_address() -> None:
    with pytest.raises(SettingsError, match="write `log` alone"):
        opened("log", "http://127.0.0.1")


def test_the_log_says_it_all(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        opened("log", "").send(made_notice(), START_NS)

    assert "page began: chat-e2e: 20 % of POST /chat" in caplog.text
    assert "Guilty stage: retrieve" in caplog.text
    assert caplog.text.count("Slow: http://127.0.0.1:8321/api/v1/requests/") == 3
