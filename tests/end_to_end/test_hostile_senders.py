"""A service under attack answers others, and ends in time."""

import gzip
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from latencytrace.service.net.connections import HEADERS_S, MAX_HEADER_BYTES
from latencytrace.service.net.edge import BYTES_PER_S
from latencytrace.service.otlp.traces import JSON, MAX_BYTES, MAX_MEMBERS, PROTOBUF
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.few import few
from tests.support.secrets.data_folder import files_under
from tests.support.servers.running_service import RunningService
from tests.support.waiting import PATIENCE_S, until

GZIPPED = {"content-type": PROTOBUF, "content-encoding": "gzip"}
MANY_MEMBERS = gzip.compress(b"", 1) * 950_000  # 19 MB
EMPTY_PARTS = gzip.compress(b"\x0a\x00" * 12_000_000)  # 24 MB, and long to look through
FEW_FILES = 600  # so that 136 connections are too many
# Half of a body that has long enough to come: minutes more than the service has to end.
HALF_BODY = bytes(2 * int(PATIENCE_S) * BYTES_PER_S)
HALF_POST = (
    b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
    b"Content-Type: application/x-protobuf\r\n\r\n%b" % (2 * len(HALF_BODY), HALF_BODY)
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("hostile") / "data") as running:
        yield running


@pytest.fixture
def ending(tmp_path: Path) -> Iterator[RunningService]:
    with RunningService(tmp_path / "data") as running:
        yield running


@contextmanager
def posting(service: RunningService, body: bytes, times: int) -> Iterator[list[Future[int]]]:
    """Post a gzipped body so many times at once; the statuses of the answers."""

    def post() -> int:
        with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client:
            address = f"{service.otlp}/v1/traces"
            return client.post(address, content=body, headers=GZIPPED).status_code

    with ThreadPoolExecutor(times) as pool:
        yield [pool.submit(post) for _ in range(times)]


def connected(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def everything(connection: socket.socket) -> bytes:
    """All that it says until it is closed."""
    said = b""
    try:
        while part := connection.recv(65536):
            said += part
    except ConnectionResetError:
        pass
    return said


def closed_connections(service: RunningService) -> float:
    return service.metric("latencytrace_service_connections_closed_total")


def test_many_gzip_members_are_refused_with_the_reason(service: RunningService) -> None:
    with posting(service, MANY_MEMBERS, 6) as answers:
        assert service.get("/healthz").is_success

    assert {answer.result() for answer in answers} == {400}
    refusal = service.post(MANY_MEMBERS, {**GZIPPED, "content-type": JSON})
    assert f"more than {MAX_MEMBERS} members" in refusal.json()["message"]


def test_a_small_body_that_grows_is_refused(service: RunningService) -> None:
    bomb = gzip.compress(bytes(MAX_BYTES))  # 64 kB

    with posting(service, bomb, 4) as answers:
        assert service.get("/healthz").is_success

    assert {answer.result() for answer in answers} == {400}


@pytest.mark.long
def test_it_ends_whatever_is_under_way(ending: RunningService) -> None:
    """Threads deep in bodies, a post half sent, headers half sent, and a question."""
    ending.post(otlp(one_span(uuid4().hex)))
    with ExitStack() as opened:
        opened.enter_context(connected(ending.otlp)).sendall(HALF_POST)
        opened.enter_context(connected(ending.url)).sendall(b"GET /api/v1/requ")
        question = opened.enter_context(connected(ending.url))
        question.sendall(b"GET /api/v1/breakdown HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answers = opened.enter_context(posting(ending, EMPTY_PARTS, 8))
        assert ending.end() == 0, ending.said()
        for answer in answers:
            answer.exception()


def test_a_half_sent_post_is_answered_at_the_end(ending: RunningService) -> None:
    with connected(ending.otlp) as half:
        half.sendall(HALF_POST)

        assert ending.end() == 0

        assert b" 503 " in everything(half).splitlines()[0]


@pytest.mark.parametrize(
    "path", ["/v1/traces", "/v1/metrics", f"/v1/latencytrace-profiles/{'1' * 32}"]
)
@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_what_is_not_said_to_be_otlp_is_refused(
    service: RunningService, path: str, content_type: str | None
) -> None:
    said = {} if content_type is None else {"content-type": content_type}

    answer = service.post(otlp(one_span(uuid4().hex)), said, path)

    assert answer.status_code == 415
    assert b"application/x-protobuf" in answer.content


def test_a_page_of_another_site_writes_nothing(service: RunningService) -> None:
    headers = {"content-type": JSON, "origin": "http://evil.example"}

    assert service.post(b"{}", headers).status_code == 403
    for method in ("POST", "DELETE"):
        address = f"{service.url}/api/v1/profiles/{'1' * 32}"
        assert service.client.request(method, address, headers=headers).status_code == 403
    no_type = service.client.post(f"{service.url}/api/v1/profiles", content=b"{}")
    assert no_type.status_code == 415


def test_a_profile_of_a_misspelled_service_is_refused(service: RunningService) -> None:
    answer = service.client.post(f"{service.url}/api/v1/profiles", json={"sevice": "rag"})

    assert answer.status_code == 400
    assert b"sevice" in answer.content


@pytest.mark.parametrize(
    "head",
    [
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost",
        "GET /healthz HTTP/1.1",
        "GET /healthz HTTP/1.0",
        "GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost",
        "GET http://evil.example?/healthz HTTP/1.1\r\nHost: localhost",
        "GET http://localhost@evil.example/healthz HTTP/1.1\r\nHost: localhost",
        "GET /healthz HTTP/1.1\r\nHost: [::1].evil.example",
        "GET /healthz HTTP/1.1\r\nHost: localhost:80@evil.example",
        "GET /healthz HTTP/1.1\r\nHost: localhost:99999",
    ],
)
def test_a_host_that_is_not_exactly_ours_is_refused(service: RunningService, head: str) -> None:
    with connected(service.url) as connection:
        connection.sendall(f"{head}\r\nConnection: close\r\n\r\n".encode())

        assert re.match(rb"HTTP/1\.[01] (400|421) ", everything(connection))


def test_an_absolute_target_of_ours_is_answered(service: RunningService) -> None:
    with connected(service.url) as connection:
        connection.sendall(
            b"GET http://LOCALHOST:1/healthz HTTP/1.1\r\nHost: ignored\r\n"
            b"Connection: close\r\n\r\n"
        )

        assert everything(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.long
def test_headers_that_never_end_are_given_up(service: RunningService) -> None:
    closed_before = closed_connections(service)
    with ExitStack() as opened:
        began_s = time.monotonic()
        silent = opened.enter_context(connected(service.otlp))
        half = opened.enter_context(connected(service.otlp))
        half.sendall(b"POST /v1/traces HT")
        dripping = opened.enter_context(connected(service.url))
        dripping.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        ended = threading.Event()

        def drip() -> None:
            while not ended.wait(0.5):
                try:
                    dripping.sendall(b"x")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        said = [everything(connection) for connection in (silent, half, dripping)]
        took_s = time.monotonic() - began_s
        ended.set()
        thread.join()

    assert all(one.startswith(b"HTTP/1.1 408 ") for one in said)
    assert took_s >= HEADERS_S  # in which slow senders may send theirs
    assert closed_connections(service) - closed_before == 3


def test_headers_without_end_are_given_up_at_once(service: RunningService) -> None:
    closed_before = closed_connections(service)
    with connected(service.otlp) as connection:
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\n")
        try:
            for _ in range(2000):
                connection.sendall(b"a: " + b"b" * 1000 + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass

        assert MAX_HEADER_BYTES < 2000 * 1000
        assert everything(connection)[:13] in {b"HTTP/1.1 431 ", b""}  # a reset can lose it
    assert closed_connections(service) == closed_before + 1


@pytest.mark.parametrize(
    "half",  # of a request
    few(
        1,
        [
            pytest.param(b"POST /v1/traces HTTP/1.1\r\n", id="headers"),
            pytest.param(
                b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"
                b"Content-Type: application/json\r\n\r\n{",
                id="a body",
            ),
            pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="an idle connection"),
        ],
    ),
)
def test_half_open_connections_make_room_for_others(tmp_path: Path, half: bytes) -> None:
    with (
        RunningService(tmp_path / "data", first=f"ulimit -n {FEW_FILES}") as service,
        ExitStack() as opened,
    ):
        for place in range(1000):
            opened.enter_context(connected(service.otlp)).sendall(half)
            if place % 100 == 99:
                fresh = httpx.post(
                    f"{service.otlp}/v1/traces",
                    content=otlp(one_span(uuid4().hex)),
                    headers={"content-type": PROTOBUF},
                    trust_env=False,
                )
                assert fresh.status_code == 200
        assert closed_connections(service) > 800
        assert "make room" in service.said()


@pytest.mark.long
def test_no_files_left_is_said_and_passes(tmp_path: Path) -> None:
    with (
        RunningService(tmp_path / "data", first="ulimit -n 256") as service,
        httpx.Client(timeout=PATIENCE_S, trust_env=False) as kept,
    ):
        kept.get(f"{service.url}/healthz")
        grpc = service.otlp_grpc
        with ExitStack() as opened:
            for _ in range(300):
                opened.enter_context(connected(grpc))
            until(lambda: "ulimit -n" in service.said(), service.said)
            assert kept.get(f"{service.url}/healthz").is_success
            refused = kept.get(f"{service.url}/readyz")
            assert refused.status_code == 503
            assert "ulimit -n" in refused.text
        until(lambda: "can be opened again" in service.said(), service.said)
        until(lambda: service.get("/readyz").is_success, lambda: service.get("/readyz").text)


@pytest.mark.long
def test_what_it_writes_is_private_whatever_the_umask(tmp_path: Path) -> None:
    with RunningService(tmp_path / "data", first="umask 0") as service:
        service.post(otlp(one_span(trace_id := uuid4().hex)))
        service.request(trace_id)
        made = list(files_under(tmp_path / "data"))
        rights = {}
        for path in {tmp_path / "data", *made, *(path.parent for path in made)}:
            # The engine keeps links to its own tables, and a link has no rights of its own.
            with suppress(FileNotFoundError):  # it renames as well
                rights[path] = 0 if path.is_symlink() else path.stat().st_mode & 0o077

    assert len(rights) > 10
    assert {path: mode for path, mode in rights.items() if mode} == {}
