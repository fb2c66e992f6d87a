"""Waits whose place is known, put into a traced application: they must be found there."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast
from urllib.parse import quote, urlsplit

import httpx
import pytest

from latencytrace.cli.processes.local_service import answers
from tests.support.programs.controlled_app import CHUNK_BYTES, CHUNKS, DECODE_MS, SAID
from tests.support.servers.command_line import COMMAND, environment, latencytrace
from tests.support.servers.ports import free_port
from tests.support.servers.running_service import RunningService
from tests.support.waiting import PATIENCE_S, until

APPS = Path(__file__).parents[1] / "support" / "programs"
HIDDEN_MS = 50
CALLS = 9
MS = 1_000_000
SLOW_NS = 1000 * MS  # how long the slow client keeps the application waiting


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("controls") / "data") as service:
        yield service


@pytest.fixture(scope="module")
def application(service: RunningService) -> Iterator[str]:
    """The controlled application under `latencytrace run`; its base address."""
    port = free_port()
    command = [*COMMAND, "run", "--service", "controlled", "--", sys.executable, "-m", "uvicorn"]
    command += ["--app-dir", str(APPS), "controlled_app:app", "--port", str(port)]
    where = {"LATENCYTRACE_URL": service.url, "OTEL_EXPORTER_OTLP_ENDPOINT": service.otlp}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(**where)
    ) as process:
        address = f"http://127.0.0.1:{port}"
        until(lambda: answers(f"{address}/openapi.json"), service.said)  # no route of a test
        yield address
        process.terminate()
        process.wait(PATIENCE_S)


def answered(service: RunningService, route: str, count: int) -> list[dict[str, object]]:
    """The newest of so many answered requests to a route, once they are there."""

    def found() -> list[dict[str, object]] | None:
        listed = service.ask(f"/requests?order=newest&limit=100&route={route}")["requests"]
        requests = cast("list[dict[str, object]]", listed)
        well = [request for request in requests if request["status"] == "ok"]
        return well if len(well) >= count else None

    return until(found, service.said)[:count]


def ledgers(service: RunningService, route: str, count: int) -> list[dict[str, int]]:
    """The ledgers of these."""
    return [
        cast("dict[str, int]", request["ledger"]) for request in answered(service, route, count)
    ]


def test_a_hidden_wait_appears_as_unattributed(service: RunningService, application: str) -> None:
    route = "GET%20/hidden/{milliseconds}"
    with httpx.Client(trust_env=False) as client:
        waits = [client.get(f"{application}/hidden/{HIDDEN_MS}") for _ in range(CALLS)]

    waited_ns = [wait.json() for wait in waits]
    found = ledgers(service, route, CALLS)
    for waits_ns, ledger in zip(reversed(waited_ns), found, strict=True):
        # The end of a wait may lie in a pause of the runtime, which has its own row.
        assert ledger["unattributed"] + ledger.get("runtime", 0) >= waits_ns >= HIDDEN_MS * MS


def test_the_wait_for_a_thread_is_named_in_the_terminal(
    service: RunningService, application: str
) -> None:
    route = "GET /queued/{milliseconds}"
    with ThreadPoolExecutor(2) as clients:
        asked = [
            clients.submit(httpx.get, f"{application}/queued/{HIDDEN_MS}", timeout=PATIENCE_S)
            for _ in range(2)
        ]
        assert all(one.result().is_success for one in asked)
    waited, trace_id = max(
        (cast("dict[str, int]", request["ledger"]).get("runtime", 0), str(request["trace_id"]))
        for request in answered(service, quote(route), 2)
    )

    picture = terminal(service, "breakdown", "--route", route)

    assert waited >= HIDDEN_MS * MS
    assert "· thread-pool wait" in picture
    assert "thread-pool wait" in terminal(service, "trace", trace_id)


def test_a_failed_request_names_its_exception_and_keeps_what_it_told(
    service: RunningService, application: str
) -> None:
    httpx.get(f"{application}/failing", timeout=PATIENCE_S)
    until(lambda: service.ask("/requests?route=GET%20/failing")["requests"], service.said)

    picture = terminal(service, "trace", "slowest", "--route", "GET /failing")

    assert " · controlled · error: IndexNotLoadedError in retrieve\n" in picture
    assert "GET /failing 500 IndexNotLoadedError" in picture
    assert re.search("retrieve IndexNotLoadedError +retrieve ", picture)
    assert SAID not in picture
    assert SAID not in terminal(service, "trace", "slowest", "--route", "GET /failing", "--json")


def terminal(service: RunningService, *arguments: str) -> str:
    """What a reading command prints."""
    answer = latencytrace(*arguments, "--url", service.url)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def has_waited(application: str) -> bool:
    """Return whether it has decoded nothing for so long, for nobody takes what it has."""
    idle_ns = httpx.get(f"{application}/idle", timeout=PATIENCE_S).json()
    return idle_ns is not None and idle_ns >= SLOW_NS


def test_a_slow_clients_wait_is_respond_and_not_decode(
    service: RunningService, application: str
) -> None:
    address = urlsplit(application)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        client.connect((address.hostname, address.port))
        client.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        until(lambda: has_waited(application))
        received = 0
        while part := client.recv(1 << 20):
            received += len(part)

    assert received > CHUNKS * CHUNK_BYTES
    (ledger,) = ledgers(service, "GET%20/stream", 1)
    # Some of it may lie in a pause of the runtime, which has its own row.
    assert ledger["respond"] + ledger.get("runtime", 0) >= SLOW_NS
    assert ledger["decode"] >= CHUNKS * DECODE_MS * MS


def test_a_client_that_leaves_in_mid_stream_is_a_cancelled_request(
    service: RunningService, application: str
) -> None:
    address = urlsplit(application)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        client.connect((address.hostname, address.port))
        client.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        client.recv(1000)

    def cancelled() -> bool:
        listed = service.ask("/requests?order=newest&route=GET%20/stream")["requests"]
        requests = cast("list[dict[str, object]]", listed)
        return any(request["status"] == "cancelled" for request in requests)

    assert until(cancelled, service.said)
