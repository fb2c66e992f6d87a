"""Addresses that cannot be used, and what is no service at all."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from latencytrace.cli.processes.local_service import answers, host_and_port
from latencytrace.cli.source import reading
from latencytrace.cli.source.reading import service_at
from latencytrace.cli.source.service_address import service_address
from latencytrace.errors import SettingsError
from tests.agent.test_wire import certificate
from tests.support.servers.command_line import latencytrace
from tests.support.servers.recording import Received, RecordingServer, Response
from tests.support.waiting import PATIENCE_S

UNUSABLE = {
    "no scheme": "127.0.0.1:8321",
    "no host": "http://",
    "a port in words": "http://127.0.0.1:port",
    "a port with a space": "http://127.0.0.1:83 21",
    "half an IPv6 address": "http://[::1",
}


@pytest.mark.parametrize("address", UNUSABLE.values(), ids=UNUSABLE)
def test_what_is_no_address_is_refused_by_name(address: str) -> None:
    with pytest.raises(SettingsError, match=r"the service's address '.*' (has|does not begin)"):
        service_address(address)


@pytest.mark.parametrize(
    "arguments",
    [
        ("breakdown", "--url", "http://127.0.0.1:port"),
        ("objectives", "--url", "http://127.0.0.1:port"),
        ("run", "--endpoint", "http://[::1", "--", "true"),
        ("load", "http://[::1", "--rate", "1", "--seconds", "1"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_command_answers_an_address_with_a_traceback(arguments: tuple[str, ...]) -> None:
    shown = latencytrace(*arguments)

    assert shown.returncode == 1
    assert shown.stderr.startswith("latencytrace: ")
    assert shown.stderr.count("\n") == 1


def test_a_port_in_words_is_an_error_of_the_settings() -> None:
    with pytest.raises(SettingsError, match="is no address: Port could not be cast"):
        host_and_port("http://127.0.0.1:port")


@pytest.fixture
def no_http() -> Iterator[str]:
    """A server of something else."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:  # the test is over
                    return
                with connection, suppress(OSError):
                    connection.recv(1024)
                    connection.sendall(b"220 mail\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("ask", [answers, service_at])
def test_a_server_of_something_else_is_no_service(
    ask: Callable[[str], object], no_http: str
) -> None:
    assert not ask(no_http)


def test_what_answers_in_the_place_of_a_service_is_described(no_http: str) -> None:
    mail = latencytrace("tail", "--url", no_http)
    with RecordingServer(lambda _: Response(404)) as server:
        other = latencytrace("tail", "--url", server.url)
    with RecordingServer(lambda _: Response(200, b"<html>")) as everything:
        page = latencytrace("tail", "--url", everything.url)

    assert f"no service answers at {no_http} (what listens there: " in mail.stderr
    assert f"{server.url} (another program does: GET /healthz got 404 Not Found)" in other.stderr
    assert page.stderr == (
        f"latencytrace: no service answers at {everything.url}: another program does, and not "
        "with JSON\n"
    )
    assert [one.returncode for one in (mail, other, page)] == [1, 1, 1]


@pytest.mark.parametrize("ask", [partial(answers, timeout_s=PATIENCE_S), service_at])
def test_a_service_that_is_busy_for_a_moment_is_one(
    ask: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "HEALTHY_WITHIN_S", PATIENCE_S)

    def late(_: Received) -> Response:
        threading.Event().wait(1.5)
        return Response()

    with RecordingServer(late) as server:
        assert ask(server.url)


def test_a_service_over_tls_is_asked_where_its_authority_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(held, key)
    with RecordingServer(tls=context) as server:
        doubted = answers(server.url), service_at(server.url)
        monkeypatch.setenv("SSL_CERT_FILE", held)
        trusted = answers(server.url)

    assert (doubted, trusted) == ((False, None), True)
