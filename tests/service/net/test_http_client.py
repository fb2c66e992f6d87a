"""The HTTP client: whom it trusts, what it sends of an address, and what its errors say."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from latencytrace.service.net.http_client import ask, exchange
from tests.service.answering import answering

NOBODY = "http://127.0.0.1:9"  # the discard port


@contextmanager
def raw_server(said: bytes) -> Iterator[str]:
    """The address of a server of its own kind, which answers once."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def tell_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    lines = [f"{name.lower()}: {value}" for name, value in handler.headers.items()]
    handler.wfile.write("\n".join(lines).encode("latin-1"))


def redirect_once(handler: BaseHTTPRequestHandler) -> None:
    there = handler.path == "/there"
    handler.send_response(200 if there else 302)
    handler.send_header("Location", "/there")
    handler.end_headers()


def headers_sent(url: str, **headers: str) -> dict[str, str]:
    lines = ask("GET", url, 10, headers=headers).content.decode("latin-1").splitlines()
    return {name: value for name, _, value in (line.partition(": ") for line in lines)}


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_a_proxy_of_the_environment_is_passed_by(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, NOBODY)

    with answering(tell_headers) as url:
        assert ask("GET", url, 10).is_success


def test_user_and_password_of_an_address_are_sent_as_a_header() -> None:
    with answering(tell_headers) as url:
        sent = headers_sent(url.replace("//", "//me:hu%2Fsh@"))

    assert sent["authorization"] == "Basic bWU6aHUvc2g="
    assert "@" not in sent["host"]


def test_a_token_wins_over_the_user_of_an_address() -> None:
    with answering(tell_headers) as url:
        sent = headers_sent(url.replace("//", "//me:hush@"), Authorization="Bearer token")

    assert sent["authorization"] == "Bearer token"


def test_bodies_are_asked_for_unpacked_and_headers_may_be_latin_1() -> None:
    with answering(tell_headers) as url:
        sent = headers_sent(url, tenant="Süd")

    assert sent["accept-encoding"] == "identity"
    assert sent["tenant"] == "Süd"


def test_questions_follow_redirects_and_exchanges_do_not() -> None:
    with answering(redirect_once) as url:
        asked = ask("GET", url, 10)
        with exchange("GET", url, 10) as answer:
            status = answer.status_code

    assert (asked.status_code, asked.url.path, status) == (200, "/there", 302)


def test_what_speaks_no_http_is_no_answer() -> None:
    with raw_server(b"220 mail\r\n\r\n") as url, pytest.raises(OSError, match="illegal status"):
        ask("GET", url, 10)


def test_an_answer_that_breaks_off_is_an_error_where_it_is_read() -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"
    with (
        raw_server(cut) as url,
        pytest.raises(OSError, match="without sending complete"),
        exchange("GET", url, 10) as answer,
    ):
        answer.read()


def test_a_header_that_cannot_be_sent_is_not_quoted() -> None:
    with (
        answering(tell_headers) as url,
        pytest.raises(OSError, match="no HTTP answer: LocalProtocolError") as refused,
    ):
        ask("GET", url, 10, headers={"authorization": "Bearer hush\n"})

    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("address", ["http://me:hush@[::1/", "http://me:hush@127.0.0.1:port/"])
def test_what_is_no_address_is_an_error_without_the_password(address: str) -> None:
    with pytest.raises(OSError, match=r"no address|no HTTP answer") as refused:
        ask("GET", address, 10)

    assert "hush" not in str(refused.value)
