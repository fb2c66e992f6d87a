"""Receivers that answer with what is no answer: a post ends in time, and by an `OSError`."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from latencytrace.agent.clock import wall_ns
from latencytrace.agent.export.grpc import GrpcSender
from latencytrace.agent.export.http import HttpSender
from latencytrace.agent.export.transport import Response
from tests.support.waiting import PATIENCE_S

TIMEOUT_S = 0.5
OK = b"HTTP/1.1 200 OK\r\n"
BUSY = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n"


def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    """One frame of HTTP/2."""
    head = struct.pack(">I", len(content))[1:] + bytes([kind, flags])
    return head + struct.pack(">I", stream) + content


SETTINGS = frame(4, 0, 0, b"")
PING = frame(6, 0, 0, b"12345678")


def headers(*pairs: tuple[bytes, bytes]) -> bytes:
    """An answer of gRPC that is over with its headers."""
    packed = b"".join(b"\0" + bytes([len(k)]) + k + bytes([len(v)]) + v for k, v in pairs)
    return SETTINGS + frame(1, 5, 1, b"\x88" + packed)


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a receiver that answers whatever comes."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, suppress(OSError):
                    connection.recv(1 << 16)
                    answer(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(PATIENCE_S)


def posted(sender: HttpSender | GrpcSender) -> Response | None:
    """The answer to a post; None: it ended by an `OSError`."""
    try:
        return sender.send(b"body")
    except OSError:
        return None
    finally:
        sender.close()


def over_http(answer: bytes) -> Response | None:
    with answering(lambda connection: connection.sendall(answer)) as port:
        return posted(HttpSender(f"http://127.0.0.1:{port}/v1/traces", {}, PATIENCE_S))


def over_grpc(answer: bytes) -> Response | None:
    with answering(lambda connection: connection.sendall(answer)) as port:
        return posted(GrpcSender(f"http://127.0.0.1:{port}", {}, PATIENCE_S))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00\xff" * 50,
        b"HTTP/1.1 99999 \r\n\r\n",
        OK + b"A" * 70_000,
        OK + b"a: b\r\n" * 200,
        OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
        SETTINGS,
    ],
)
def test_what_is_no_answer_of_http_is_none(answer: bytes) -> None:
    assert over_http(answer) is None


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\xff" * 100,
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        SETTINGS + frame(7, 0, 0, b"\0" * 8),
    ],
)
def test_what_is_no_answer_of_grpc_is_none(answer: bytes) -> None:
    assert over_grpc(answer) is None


def test_an_answer_that_comes_byte_by_byte_is_given_up_in_time() -> None:
    given_up = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(OK + b"x: ")
        while not given_up.wait(TIMEOUT_S / 10):
            connection.sendall(b"a")

    with answering(drip) as port:
        sender = HttpSender(f"http://127.0.0.1:{port}/v1/traces", {}, TIMEOUT_S)
        try:
            with pytest.raises(TimeoutError):
                sender.send(b"body")
        finally:
            given_up.set()
            sender.close()


@pytest.mark.parametrize("status", [b"\xff\xfe", b"\xb2", b"", b"abc"])
def test_a_status_that_is_no_number_is_no_grpc(status: bytes) -> None:
    answer = over_grpc(headers((b"grpc-status", status)))

    assert answer is not None
    assert (answer.status, answer.reason) == (502, "no gRPC")


@pytest.mark.parametrize(
    ("after", "seconds"),
    [
        (b"7", 7.0),
        (b"0", 0.0),
        (b"-1", None),
        (b"1e9", None),
        (b"\xb2", None),
        (b"1.5", None),
        (b"Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        (b"Wed, 99 Oct 2099 07:28:00 GMT", None),
        (b"Wed, 21 Oct 99999999999 07:28:00 GMT", None),
        (b"GMT", None),
    ],
)
def test_a_time_to_try_again_is_a_number_of_seconds_or_none(
    after: bytes, seconds: float | None
) -> None:
    answer = over_http(BUSY + b"retry-after: " + after + b"\r\n\r\n")

    assert answer == Response(429, "Too Many Requests", seconds)


def test_a_time_to_try_again_may_be_a_date() -> None:
    answer = over_http(BUSY + b"retry-after: Wed, 21 Oct 2099 07:28:00 GMT\r\n\r\n")

    assert answer is not None
    assert answer.retry_after_s is not None
    at_ns = wall_ns() + int(answer.retry_after_s * 1e9)
    assert abs(at_ns / 1e9 - 4_096_250_880) < PATIENCE_S


@pytest.mark.parametrize(("kind", "rejected"), [(b"application/x-protobuf", 3), (b"text/html", 0)])
def test_what_was_left_out_of_a_post_is_read(kind: bytes, rejected: int) -> None:
    head = b"content-type: " + kind + b"\r\ncontent-length: 4\r\n\r\n"

    answer = over_http(OK + head + b"\x0a\x02\x08\x03")

    assert answer is not None
    assert answer.partial.rejected == rejected


def test_of_an_answer_without_end_only_the_beginning_is_read() -> None:
    sent: list[int] = []

    def answer(connection: socket.socket) -> None:
        connection.sendall(OK + b"\r\n")
        while True:
            sent.append(connection.send(b"x" * 10_000))

    with answering(answer) as port:
        taken = posted(HttpSender(f"http://127.0.0.1:{port}/v1/traces", {}, PATIENCE_S))

    assert taken is not None
    assert taken.status == 200
    assert sum(sent) < 50_000_000  # what fits into buffers


def test_a_receiver_that_pings_but_does_not_answer_is_not_waited_for() -> None:
    over = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(SETTINGS)
        while not over.wait(0.05):
            connection.sendall(PING)

    with answering(answer) as port:
        taken = posted(GrpcSender(f"http://127.0.0.1:{port}", {}, TIMEOUT_S))
        over.set()

    assert taken is None
