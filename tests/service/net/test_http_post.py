"""Posts of sinks: through proxies, as urllib reads them, and what their answers ask for."""

from collections.abc import Iterator

import pytest

from latencytrace.errors import SinkError
from latencytrace.service.net.http_post import post_json
from tests.support.servers.recording import RecordingServer, Response

FAR = "http://alerts.example/hook"


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingServer]:
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
    with RecordingServer() as running:
        monkeypatch.setenv("http_proxy", running.host)  # without a scheme, as many write it
        yield running


def test_what_is_far_is_posted_through_the_proxy(proxy: RecordingServer) -> None:
    post_json(FAR, {"a": 1})

    assert [received.target for received in proxy.received] == [FAR]
    assert proxy.documents == [{"a": 1}]


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_what_is_on_this_machine_is_posted_directly(proxy: RecordingServer, name: str) -> None:
    with RecordingServer() as here:
        post_json(here.url.replace("127.0.0.1", name), {})

    assert (len(here.documents), proxy.documents) == (1, [])


def test_no_proxy_names_what_is_posted_directly(
    proxy: RecordingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.1")  # this machine, by a name that does not say so

    with RecordingServer() as named:
        post_json(named.url.replace("127.0.0.1", "127.1"), {})

    assert (len(named.documents), proxy.documents) == (1, [])


@pytest.mark.parametrize("address", ["socks5://127.0.0.1:9", "gopher://127.0.0.1:9"])
def test_a_proxy_that_cannot_be_used_is_reported(
    proxy: RecordingServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", address)

    with pytest.raises(SinkError, match=r"alerts\.example does not answer"):
        post_json(FAR, {})

    assert proxy.documents == []


def test_a_proxy_that_serves_sockets_alone_is_left_out(
    proxy: RecordingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:9")

    post_json(FAR, {})

    assert [received.target for received in proxy.received] == [FAR]


@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_tells_the_pause(status: int) -> None:
    refused = Response(status, headers={"Retry-After": "20"})
    with RecordingServer(refused) as receiver, pytest.raises(SinkError) as raised:
        post_json(receiver.url, {})

    assert raised.value.retry_after_s == 20
