"""Sentry, contrib, ddtrace and latencytrace in each process of a server, in every order.

Workers are forked, recycled, and ended by SIGTERM in the midst of a stream. Each server does what
it does with the other three in the same order.
"""

import http.client
import importlib.metadata
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support.agent import everything_at_once
from tests.support.agent.everything_at_once import OURS, PARTS, TRACERS
from tests.support.agent.receiving import Receiver
from tests.support.servers.command_line import environment
from tests.support.servers.ports import free_port
from tests.support.servers.recording import RecordingServer, Response
from tests.support.waiting import PATIENCE_S, until

T = TypeVar("T")
MODULE = everything_at_once.__name__
SERVERS = {
    "gevent": ("-k", "gevent", f"{MODULE}:wsgi"),
    "uvicorn": ("-k", "uvicorn.workers.UvicornWorker", f"{MODULE}:app"),
    "uvicorn, preloaded": ("-k", "uvicorn.workers.UvicornWorker", "--preload", f"{MODULE}:app"),
}
NEEDED = (*TRACERS, "gunicorn", "gevent", "a2wsgi", "uvicorn")
# With ddtrace, an event loop in a thread of gevent's ends by `LoopExit`, with us and without.
BROKEN = {("gevent", "ddtrace")}
PATHS = ("/plain", "/thread", "/called", "/forked", "/faults")
ROUNDS = 4  # each worker is replaced after six requests


def answered(ask: Callable[[], T]) -> T:
    """Ask until somebody answers: a worker that is replaced may reset what it has not read."""
    found: list[T] = []

    def is_answered() -> bool:
        with suppress(ConnectionError):
            found.append(ask())
        return bool(found)

    until(is_answered)
    return found[0]


def begun(port: int) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """Begin to read a stream."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/stream")
        return connection, connection.getresponse()
    except ConnectionError:
        connection.close()
        raise


def asked(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers={"connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def answers(port: int) -> bool:
    with suppress(OSError):
        return asked(port, "/plain")[0] == 200
    return False


def outcome(server: str, order: str, folder: Path, receiver: Receiver) -> Mapping[str, object]:
    """What clients get of a server, to its end."""
    port, log = free_port(), folder / "server.log"
    command = [sys.executable, "-W", "ignore", "-m", "gunicorn", "--bind", f"127.0.0.1:{port}"]
    command += ["--workers", "2", "--max-requests", "6", "--timeout", "150", *SERVERS[server]]
    with RecordingServer(lambda _: Response(body=b"up")) as upstream, log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(
                ORDER=order,
                RECEIVER=receiver.endpoint,
                UPSTREAM=upstream.url,
                PYTHONPATH=str(Path.cwd()),
                OTEL_BSP_SCHEDULE_DELAY="60000",  # so that the last spans are sent at the end
            ),
        )
        try:
            until(
                lambda: process.poll() is not None or answers(port), log.read_text, 4 * PATIENCE_S
            )
            found = {
                path: {answered(partial(asked, port, path)) for _ in range(ROUNDS)}
                for path in PATHS
            }
            connection, stream = answered(partial(begun, port))
            first = stream.read(1)
            process.send_signal(signal.SIGTERM)
            streamed = (first + stream.read()).decode()
            connection.close()
            code = process.wait(PATIENCE_S)
        finally:
            process.kill()
            process.wait()
    tracebacks = log.read_text().count("Traceback")
    return {**found, "stream": streamed, "code": code, "tracebacks": tracebacks}


@pytest.fixture(scope="module")
def without_us() -> dict[tuple[str, str], Mapping[str, object]]:
    return {}


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("server", "order"),
    [
        (server, " ".join(order))
        for server in SERVERS
        for order in permutations(one for one in TRACERS if (server, one) not in BROKEN)
    ],
)
def test_a_server_that_others_trace_does_the_same_with_us(
    without_us: dict[tuple[str, str], Mapping[str, object]],
    receiver: Receiver,
    tmp_path: Path,
    server: str,
    order: str,
) -> None:
    for name in NEEDED:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{name} is not installed: `make test-tracers` brings it")
    others = " ".join(name for name in order.split() if name != OURS)
    if (server, others) not in without_us:
        without_us[server, others] = outcome(server, others, tmp_path, receiver)
    expected = without_us[server, others]

    traced = outcome(server, order, tmp_path, receiver)

    assert expected["stream"] == "".join(f"{number}," for number in range(PARTS))
    assert traced == expected, (tmp_path / "server.log").read_text()
    assert any(span.name.endswith("/stream") for span in receiver.spans)
