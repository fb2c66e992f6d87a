"""No planted secret is in any file of a data folder, whenever one looks."""

import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import grpc
import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from tests.support.secrets.data_folder import DataFolder, files_under
from tests.support.secrets.planted_secrets import PREFIX, SPELLINGS, VISIBLE, in_json, requests_of
from tests.support.servers.running_service import PROTOBUF, RunningService
from tests.support.waiting import PATIENCE_S, until

SENDERS = ("protobuf", "gzip", "json", "grpc")
LOOKS = 10
JSON = {"content-type": "application/json"}


@dataclass
class Seen:
    """What was found in a data folder, by when it was looked for."""

    secrets: dict[str, set[str]] = field(default_factory=dict)
    visible: set[str] = field(default_factory=set)  # when that was found which stays
    planted: int = 0
    answers: str = ""

    def look(self, when: str, content: bytes) -> None:
        """Search for whatever was planted."""
        found = self.secrets.setdefault(when, set())
        for spelling in SPELLINGS:
            at = content.find(spelling)
            if at >= 0:
                found.add(repr(content[max(at - 40, 0) : at + 60]))
        if VISIBLE.encode() in content:
            self.visible.add(when)


def sendings(service: RunningService, seen: Seen) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each sender's trace, and how it is sent."""
    for number, sender in enumerate(SENDERS, start=1):
        trace_id, request, planted = requests_of(sender, number)
        body = request.SerializeToString()
        assert all(secret.encode() in body for secret in planted)
        seen.planted += len(planted)
        if sender == "json":
            in_members: list[str] = []

            def plant(place: str, members: list[str] = in_members) -> str:
                members.append(PREFIX + place.replace(" ", ""))
                return members[-1]

            body = in_json(request, plant)
            seen.planted += len(in_members)
            yield trace_id, lambda body=body: _ok(service, body, JSON)  # type: ignore[misc] # mypy knows no defaults of lambdas
        elif sender == "grpc":
            stub = TraceServiceStub(grpc.insecure_channel(service.otlp_grpc))  # type: ignore[no-untyped-call] # generated
            export = partial(stub.Export, request, timeout=PATIENCE_S)
            yield trace_id, export
        elif sender == "gzip":
            yield trace_id, lambda body=body: service.post_gzip(body).raise_for_status()  # type: ignore[misc] # likewise
        else:
            yield trace_id, lambda body=body: _ok(service, body, PROTOBUF)  # type: ignore[misc] # likewise


def _ok(service: RunningService, body: bytes, headers: dict[str, str]) -> None:
    service.post(body, headers).raise_for_status()


def files_of(folder: Path) -> bytes:
    """All files of a folder that is being written."""
    contents = []
    for path in files_under(folder):
        with suppress(FileNotFoundError):
            contents.append(path.read_bytes() if path.is_file() else b"")
    return b"\0".join(contents)


def _send_on(send: Callable[[], object], stop: threading.Event) -> None:
    """Send until told to stop, or until the service is killed."""
    while not stop.is_set():
        try:
            send()
        except (grpc.RpcError, httpx.HTTPError):
            return


def under_load(service: RunningService, sends: list[Callable[[], object]], seen: Seen) -> None:
    """Look into the folder while spans come, and kill the service before they end."""
    stop = threading.Event()

    for send in sends:
        send()
    seen.look("once answered", files_of(service.folder))
    threads = [threading.Thread(target=_send_on, args=(send, stop)) for send in sends]
    for thread in threads:
        thread.start()
    for _ in range(LOOKS):
        seen.look("under load", files_of(service.folder))

    def journal_seen() -> bool:
        seen.look("journal", files_of(service.folder / "journal"))
        return "journal" in seen.visible

    until(journal_seen, service.said)
    service.end(signal.SIGKILL)
    stop.set()
    for thread in threads:
        thread.join()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    path = tmp_path_factory.mktemp("planted")
    folder, found = path / "data", Seen()
    with RunningService(folder) as service:
        sends = dict(sendings(service, found))
        under_load(service, list(sends.values()), found)
    found.look("killed", files_of(folder))
    shutil.copytree(folder, path / "copy", symlinks=True)
    found.look("rows of the killed", DataFolder.read(path / "copy").rows.encode())
    with RunningService(folder) as service:
        found.look("started again", files_of(folder))
        for trace_id in sends:
            found.answers += until(lambda: _answer(service, trace_id), service.said)  # noqa: B023 - called within this turn
        found.look("divided", files_of(folder))
        found.look("answers", found.answers.encode())
        found.look("log", service.said().encode())
        service.end()
    found.look("ended", files_of(folder))
    found.look("rows", DataFolder.read(folder).rows.encode())
    return found


def _answer(service: RunningService, trace_id: str) -> str | None:
    answer = service.get(f"/api/v1/requests/{trace_id}")
    return answer.text if answer.is_success else None


def test_enough_is_planted(seen: Seen) -> None:
    assert seen.planted >= 400


@pytest.mark.parametrize(
    "when",
    ["once answered", "under load", "journal", "killed", "rows of the killed", "started again",
     "divided", "answers", "log", "ended", "rows"],
)  # fmt: skip
def test_no_secret_is_there(seen: Seen, when: str) -> None:
    assert seen.secrets[when] == set()


def test_the_search_finds_what_stays(seen: Seen) -> None:
    assert {"journal", "answers", "rows"} <= seen.visible
    assert {"killed", "rows of the killed"} & seen.visible
