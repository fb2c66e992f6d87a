"""The hook of Mosec: `latencytrace run -- python served.py`, with its server in Rust."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.trace import SpanKind

from latencytrace.agent.hooks.mosec import MosecHook
from latencytrace.model import Stage, semconv
from latencytrace.model.packed import unpack_token_times
from tests.support.agent.batches import ask_together, members
from tests.support.agent.receiving import Receiver
from tests.support.servers.traced_server import TracedServer, traced_server

pytest.importorskip("mosec")

HOOKS = (MosecHook,)
ADDRESS = ("--address", "127.0.0.1", "--port", "PORT")
PROGRAM = """
import pathlib
import time

from mosec import Runtime, Server, SSEWorker, ValidationError, Worker


class Read(Worker):
    def forward(self, data):
        if data["x"] < 0:
            raise ValidationError("a secret")
        return data["x"]


class Double(Worker):
    def forward(self, data):
        while not pathlib.Path("go").exists():
            time.sleep(0.001)
        return [2 * number for number in data]


class Write(Worker):
    def forward(self, data):
        if data == 26:
            raise ValueError("a secret")
        return {"y": data}


class Halve(Worker):
    def forward(self, data):
        return {"y": data["x"] // 2}


class Own(Halve):
    def serialize_ipc(self, data):
        return str(data["y"]).encode()


class Text(Worker):
    def deserialize_ipc(self, data):
        return int(data.decode())

    def forward(self, data):
        return {"y": data}


class Tokens(SSEWorker):
    def forward(self, data):
        for _ in range(data["x"]):
            self.send_stream_event("a secret")
        return "done"


if __name__ == "__main__":
    server = Server()
    server.register_runtime(
        {
            "/double": [Runtime(Read), Runtime(Double, max_batch_size=4), Runtime(Write)],
            "/halve": [Runtime(Halve)],
            "/own": [Runtime(Own), Runtime(Text)],
            "/tokens": [Runtime(Tokens)],
        }
    )
    server.run()
"""


ALONE = """
import time

from mosec import Server, Worker


class Slow(Worker):
    def forward(self, data):
        time.sleep(0.02)
        return data


if __name__ == "__main__":
    server = Server()
    server.append_worker(Slow, max_batch_size=BATCH)
    server.run()
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@contextmanager
def served(receiver: Receiver, folder: Path, program: str) -> Iterator[TracedServer]:
    (folder / "served.py").write_text(program)
    command = (sys.executable, "served.py", *ADDRESS, "--path", str(folder / "ipc"))
    with traced_server(receiver, folder, *command, ready="/") as server:
        yield server


@pytest.fixture
def server(receiver: Receiver, tmp_path: Path) -> Iterator[TracedServer]:
    with served(receiver, tmp_path, PROGRAM) as server:
        yield server


def test_a_request_is_one_trace_through_all_its_workers(
    server: TracedServer, receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "go").touch()

    doubled = ask_together(server, "/double", *({"x": number} for number in range(6)))

    assert doubled == [{"y": 2 * number} for number in range(6)]
    requests = server.spans("POST /double", 6)
    assert {one.kind for one in requests} == {SpanKind.SERVER}
    assert {one.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] for one in requests} == {200}
    assert {one.parent_id for one in requests} == {None}
    assert len({one.trace_id for one in requests}) == 6
    server.wait_until(lambda: all(len(server.trace(one)) == 6 for one in requests))
    for request in requests:
        _, read, _, double, _, write = server.trace(request)
        assert [one.stage for one in server.trace(request)[1:]] == [
            *(Stage.FORWARD, Stage.QUEUE, Stage.FORWARD, Stage.QUEUE, Stage.FORWARD)
        ]
        assert {one.parent_id for one in server.trace(request)[1:]} == {request.span_id}
        assert read.interval_ns(Stage.PREPROCESS) > 0
        assert write.interval_ns(Stage.POSTPROCESS) > 0
        assert len(double.links) == 1
        assert request.covers(read)
        assert request.covers(write)
    assert len(members(server, receiver, "POST /double", 6, Stage.FORWARD)) == 6


def test_requests_wait_for_a_worker_and_share_its_batches(
    server: TracedServer, receiver: Receiver, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(1) as beside:
        asked = beside.submit(
            ask_together, server, "/double", *({"x": number} for number in range(6))
        )
        server.wait_until(lambda: len(server.named("forward")) == 6)  # read, and not yet doubled
        (tmp_path / "go").touch()
        asked.result()

    assert len(members(server, receiver, "POST /double", 6, Stage.FORWARD)) == 6
    shared = [one for one in server.named("forward") if semconv.SHARED in one.attributes]
    assert max(len(one.links) for one in shared) > 1


def test_what_fails_ends_with_its_status_in_whichever_worker(
    server: TracedServer, tmp_path: Path
) -> None:
    (tmp_path / "go").touch()

    statuses = [server.client.post("/double", json={"x": x}).status_code for x in (-1, 13)]

    assert statuses == [422, 500]
    invalid, broken = server.spans("POST /double", 2)
    assert invalid.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 422
    assert semconv.ERROR_TYPE not in invalid.attributes
    assert broken.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 500
    assert broken.attributes[semconv.ERROR_TYPE] == "500"
    server.wait_until(lambda: len(server.trace(broken)) == 6)


def test_one_worker_alone_serves_in_the_request_s_own_trace(server: TracedServer) -> None:
    assert server.client.post("/halve", json={"x": 8}).json() == {"y": 4}

    (request,) = server.spans("POST /halve", 1)
    server.wait_until(lambda: len(server.trace(request)) == 2)
    _, forward = server.trace(request)
    assert (forward.stage, forward.parent_id) == (Stage.FORWARD, request.span_id)


def test_a_program_s_own_form_between_its_workers_is_left_alone(server: TracedServer) -> None:
    assert server.client.post("/own", json={"x": 8}).json() == {"y": 4}

    server.spans("POST /own", 2)  # a request of each worker


def test_events_of_a_stream_are_its_tokens(server: TracedServer) -> None:
    answer = server.client.post("/tokens", json={"x": 5})

    assert answer.text.count("a secret") == 5
    (request,) = server.spans("POST /tokens", 1)
    assert semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK in request.attributes
    times = unpack_token_times(str(request.attributes[semconv.TOKEN_TIMES]), 0)
    assert len(times.lengths_ns) == 4
    assert "secret" not in repr(request.attributes)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel does not say when bytes came")
@pytest.mark.parametrize("batch", [1, 2])
def test_a_request_begins_when_the_server_in_rust_got_it(
    receiver: Receiver, tmp_path: Path, batch: int
) -> None:
    with served(receiver, tmp_path, ALONE.replace("BATCH", str(batch))) as server:
        while not server.named("queue"):  # the kernel is asked for a hundredth of the time
            ask_together(server, "/inference", *([{"x": 1}] * 6))
        waits = {one.parent_id: one for one in server.named("queue")}
        server.wait_until(lambda: waits.keys() <= ids(server))
        requests = {one.span_id: one for one in server.named("POST /inference")}

    for span_id, wait in waits.items():
        assert wait.start_ns == requests[str(span_id)].start_ns


def ids(server: TracedServer) -> set[str]:
    return {one.span_id for one in server.named("POST /inference")}
