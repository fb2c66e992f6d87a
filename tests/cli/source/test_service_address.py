"""Addresses that cannot be used, and what is no service at all."""

import socket
import threading
from collections.abc import Iterator

import pytest

from latencytrace.cli.processes.local_service import answers, host_and_port
from latencytrace.cli.source.service_address import service_address
from latencytrace.errors import SettingsError
from tests.support.servers.command_line import latencytrace

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
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(b"220 mail\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_server_of_something_else_is_no_service(no_http: str) -> None:
    assert not answers(no_http)
