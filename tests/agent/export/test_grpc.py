"""OTLP over gRPC as a real server gets it, and what its answers mean."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from latencytrace.agent.export.grpc import GrpcSender
from latencytrace.agent.export.transport import TRACES, TransportOptions
from latencytrace.errors import SettingsError
from tests.support.agent.receiving import Receiver
from tests.support.servers.ports import free_port
from tests.support.waiting import PATIENCE_S

Answering = Callable[[bytes, Any], bytes]


class Taken:
    """What a server got."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.metadata: list[dict[str, str]] = []
        self.peers: set[str] = set()

    def __call__(self, body: bytes, context: Any) -> bytes:
        """Take one call."""
        self.bodies.append(body)
        self.metadata.append(dict(context.invocation_metadata()))
        self.peers.add(context.peer())
        return b""


@contextmanager
def serving(answering: Answering, port: int = 0) -> Iterator[int]:
    """A real gRPC server, and its port."""
    service, method = TRACES.strip("/").split("/")
    handler = grpc.unary_unary_rpc_method_handler(answering)
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, options=(("grpc.max_receive_message_length", -1),))
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: handler}),)
        )
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        try:
            yield bound
        finally:
            server.stop(0).wait()


@contextmanager
def sending(port: int) -> Iterator[GrpcSender]:
    sender = GrpcSender(f"http://127.0.0.1:{port}", {"X-Key": "a b"}, PATIENCE_S)
    try:
        yield sender
    finally:
        sender.close()


@pytest.mark.parametrize("size", [0, 1, 16_384, 5_000_000])
def test_every_byte_arrives(size: int) -> None:
    taken = Taken()
    body = bytes(index % 251 for index in range(size))
    with serving(taken) as port, sending(port) as sender:
        answer = sender.send(body)

    assert answer.status == 200
    assert taken.bodies == [body]
    assert taken.metadata[0]["x-key"] == "a b"


class Relay:
    """A port that hands on to another, and counts what goes there."""

    def __init__(self, port: int) -> None:
        self.sent = 0
        self._there = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    def _serve(self) -> None:
        here, _ = self._listener.accept()
        back = threading.Thread(target=self._hand_on, args=(self._there, here), daemon=True)
        back.start()
        self.sent = self._hand_on(here, self._there)
        self._there.shutdown(socket.SHUT_RDWR)
        back.join()
        here.close()

    @staticmethod
    def _hand_on(start: socket.socket, end: socket.socket) -> int:
        handed_on = 0
        while received := start.recv(65_536):
            end.sendall(received)
            handed_on += len(received)
        return handed_on

    def close(self) -> None:
        """Wait until it has handed on all."""
        self._threads[0].join()
        self._there.close()
        self._listener.close()


def test_packed_bytes_are_fewer_on_the_way_and_the_same_there() -> None:
    taken = Taken()
    body = b"spans" * 100_000
    with serving(taken) as port:
        relay = Relay(port)
        sender = GrpcSender(
            f"http://127.0.0.1:{relay.port}", {}, PATIENCE_S, options=TransportOptions(gzip=True)
        )
        answers = [sender.send(body), sender.send(b"")]
        sender.close()
        relay.close()

    assert [answer.status for answer in answers] == [200, 200]
    assert taken.bodies == [body, b""]
    assert relay.sent < len(body) / 50


def test_calls_share_a_connection() -> None:
    taken = Taken()
    with serving(taken) as port, sending(port) as sender:
        statuses = [sender.send(b"x" * 100_000).status for _ in range(20)]

    assert statuses == [200] * 20
    assert len(taken.peers) == 1


def test_a_receiver_that_was_started_anew_is_found_again() -> None:
    taken = Taken()
    with serving(taken) as port:
        sender = GrpcSender(f"http://127.0.0.1:{port}", {}, PATIENCE_S)
        sender.send(b"1")
    with serving(taken, port):
        answer = sender.send(b"2")
        sender.close()

    assert answer.status == 200
    assert taken.bodies == [b"1", b"2"]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, 400),
        (grpc.StatusCode.UNAUTHENTICATED, 401),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, 413),
        (grpc.StatusCode.UNIMPLEMENTED, 404),
        (grpc.StatusCode.INTERNAL, 500),
        (grpc.StatusCode.UNAVAILABLE, 503),
        (grpc.StatusCode.DEADLINE_EXCEEDED, 503),
    ],
)
def test_a_refusal_has_its_reason(code: grpc.StatusCode, status: int) -> None:
    def refuse(_: bytes, context: Any) -> bytes:
        context.abort(code, "größer als 5 %")
        return b""

    with serving(refuse) as port, sending(port) as sender:
        answer = sender.send(b"")

    assert (answer.status, answer.retry_after_s) == (status, None)
    assert "größer als 5 %" in answer.reason


def test_a_time_to_send_again_is_read() -> None:
    def put_off(_: bytes, context: Any) -> bytes:
        retry = RetryInfo()
        retry.retry_delay.FromMilliseconds(1500)
        told = Status(code=8, message="later")
        told.details.add().Pack(retry)
        context.set_trailing_metadata((("grpc-status-details-bin", told.SerializeToString()),))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "later")
        return b""

    with serving(put_off) as port, sending(port) as sender:
        answer = sender.send(b"")

    assert (answer.status, answer.retry_after_s) == (429, 1.5)


def test_what_was_left_out_of_a_call_is_read() -> None:
    answered = ExportTraceServiceResponse()
    answered.partial_success.rejected_spans = 3
    answered.partial_success.error_message = "too old"

    with serving(lambda _, __: answered.SerializeToString()) as port, sending(port) as sender:
        answer = sender.send(b"")

    assert (answer.status, answer.partial) == (200, (3, "too old"))


def test_nobody_there_is_an_error() -> None:
    with sending(free_port()) as sender, pytest.raises(ConnectionRefusedError):
        sender.send(b"")


def test_a_receiver_of_http_is_an_error_that_says_so() -> None:
    with (
        Receiver() as receiver,
        sending(receiver.server_port) as sender,
        pytest.raises(ConnectionError, match=r"gRPC|closed"),
    ):
        sender.send(b"")


def test_one_that_never_answers_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = GrpcSender(f"http://127.0.0.1:{server.getsockname()[1]}", {}, 0.2)

        with pytest.raises(TimeoutError):
            sender.send(b"")


@pytest.mark.parametrize("url", ["http://127.0.0.1:port", "127.0.0.1:4317", "ftp://host"])
def test_an_address_that_is_none_is_said_at_once(url: str) -> None:
    with pytest.raises(SettingsError, match="endpoint"):
        GrpcSender(url, {}, 1.0)
