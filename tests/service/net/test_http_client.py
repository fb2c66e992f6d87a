"""The HTTP client: whom it trusts, what it sends of an address, and what its errors say."""

from collections.abc import Iterator

import pytest

from latencytrace.service.net.http_client import ask, exchange
from tests.support.servers.nowhere import NOWHERE
from tests.support.servers.recording import Received, RecordingServer, Response

SECRET = "hush"


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with RecordingServer() as running:
        yield running


def sent_to(server: RecordingServer, user: str = "", **headers: str) -> Received:
    """What arrives of a question."""
    ask("GET", f"http://{user}{server.host}/", 10, headers=headers)
    return server.received[0]


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_a_proxy_of_the_environment_is_passed_by(
    variable: str, server: RecordingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, NOWHERE)

    assert ask("GET", server.url, 10).is_success


def test_user_and_password_of_an_address_are_sent_as_a_header(server: RecordingServer) -> None:
    sent = sent_to(server, user="me:hu%2Fsh@")

    assert sent.headers["authorization"] == "Basic bWU6aHUvc2g="
    assert sent.headers["host"] == server.host


def test_a_token_wins_over_the_user_of_an_address(server: RecordingServer) -> None:
    sent = sent_to(server, user="me:hush@", Authorization="Bearer token")

    assert sent.headers["authorization"] == "Bearer token"


def test_bodies_are_asked_for_unpacked_and_headers_may_be_latin_1(server: RecordingServer) -> None:
    sent = sent_to(server, tenant="Süd")

    assert sent.headers["accept-encoding"] == "identity"
    assert sent.headers["tenant"] == "Süd"


def test_questions_follow_redirects_and_exchanges_do_not() -> None:
    def answer(received: Received) -> Response:
        there = received.path == "/there"
        return Response(200 if there else 302, headers={} if there else {"Location": "/there"})

    with RecordingServer(answer) as server:
        asked = ask("GET", server.url, 10)
        with exchange("GET", server.url, 10) as answered:
            status = answered.status_code

    assert (asked.status_code, asked.url.path, status) == (200, "/there", 302)


def test_a_connection_that_breaks_is_no_answer() -> None:
    def leave(_: Received) -> Response:
        raise ConnectionError

    with RecordingServer(leave) as server, pytest.raises(OSError, match="disconnected"):
        ask("GET", server.url, 10)


def test_an_answer_that_breaks_off_is_an_error_where_it_is_read() -> None:
    def half() -> Iterator[bytes]:
        yield b"half"
        raise ConnectionError

    cut = Response(body=half(), headers={"Content-Length": "9"})
    with (
        RecordingServer(cut) as server,
        pytest.raises(OSError, match="without sending complete"),
        exchange("GET", server.url, 10) as answer,
    ):
        answer.read()


def test_a_header_that_cannot_be_sent_is_not_quoted(server: RecordingServer) -> None:
    with pytest.raises(OSError, match="no HTTP answer: LocalProtocolError") as refused:
        ask("GET", server.url, 10, headers={"authorization": f"Bearer {SECRET}\n"})

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("host", ["[::1", "127.0.0.1:port"])
def test_what_is_no_address_is_an_error_without_the_password(host: str) -> None:
    with pytest.raises(OSError, match=r"no address|no HTTP answer") as refused:
        ask("GET", f"http://me:{SECRET}@{host}/", 10)

    assert SECRET not in str(refused.value)
