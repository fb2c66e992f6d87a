"""Passwords in addresses and headers: sent, and shown to nobody."""

import logging
import socket
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from latencytrace.agent.start import agent_status, flush, instrument, uninstrument
from latencytrace.settings import agent_settings, service_settings
from tests.support.servers.command_line import environment, latencytrace
from tests.support.servers.ports import free_port
from tests.support.servers.recording import Received, RecordingServer, Response

SECRET = "hunter2secret"
KEY = "queryk3ysecret"
TOKEN = "headert0kensecret"
ENCODED = b64encode(f"user:{SECRET}".encode()).decode()
HIDDEN = (SECRET, KEY, TOKEN, ENCODED)


def refuse(received: Received) -> Response:
    """Repeat in the reason what one was told."""
    authorization = received.headers.get("authorization")
    return Response(401, reason=f"no {received.target} {authorization} {TOKEN}")


@contextmanager
def silent() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def address(port: int, scheme: str = "http") -> str:
    return f"{scheme}://user:{SECRET}@127.0.0.1:{port}/?key={KEY}"


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-key={TOKEN}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.3")


def said_of(endpoint: str, caplog: pytest.LogCaptureFixture) -> str:
    """Everything that the agent shows while it sends one span there."""
    from latencytrace import stage

    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        instrument(endpoint=endpoint, gpu=False)
        with stage("x"):
            pass
        flush(3)
        status = repr(agent_status())
        uninstrument()
    return f"{status}\n{caplog.text}"


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize("scheme", ["http", "https", "ftp"])
@pytest.mark.parametrize("there", ["refuses", "hangs", "nobody"])
def test_the_agent_shows_no_secret(
    protocol: str,
    scheme: str,
    there: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    with RecordingServer(refuse) as server, silent() as hangs:
        port = {"refuses": server.server_port, "hangs": hangs, "nobody": free_port()}[there]
        said = said_of(address(port, scheme), caplog)

    assert "latencytrace" in caplog.text
    assert [secret for secret in HIDDEN if secret in said] == []


@pytest.mark.parametrize("port", [f"se/{SECRET}", SECRET, "0x1", "99999"])
def test_a_malformed_address_shows_no_secret(port: str, caplog: pytest.LogCaptureFixture) -> None:
    said = said_of(f"http://user:{SECRET}:{port}@h\u2100st", caplog)

    assert "stays off" in said
    assert SECRET not in said


def test_user_and_password_are_sent_with_each_post(caplog: pytest.LogCaptureFixture) -> None:
    with RecordingServer(refuse) as server:
        said_of(address(server.server_port), caplog)

    assert {post.headers.get("authorization") for post in server.received} == {f"Basic {ENCODED}"}
    assert f"/v1/traces?key={KEY}" in [post.target for post in server.received]


def test_settings_show_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATENCYTRACE_TOKEN", TOKEN)
    shown = repr(agent_settings(endpoint=address(1))) + repr(service_settings())

    assert [secret for secret in HIDDEN if secret in shown] == []


@pytest.mark.timeout(200)
@pytest.mark.parametrize("command", [("run", "--", "true"), ("doctor",)], ids=["run", "doctor"])
def test_the_command_line_shows_no_secret(command: tuple[str, ...]) -> None:
    with RecordingServer(refuse) as server:
        ran = latencytrace(
            *command,
            env=environment(
                OTEL_EXPORTER_OTLP_ENDPOINT=f"{address(server.server_port)}",
                OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=address(server.server_port),
                OTEL_EXPORTER_OTLP_HEADERS=f"x-key={TOKEN}",
                LATENCYTRACE_URL=address(free_port()),
                LATENCYTRACE_TOKEN=TOKEN,
            ),
            timeout_s=100,
        )

    assert "latencytrace" in ran.stdout + ran.stderr
    assert [secret for secret in HIDDEN if secret in ran.stdout + ran.stderr] == []
