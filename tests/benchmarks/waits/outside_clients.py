"""Eight clients of a server, with their own clocks; they know nothing of who traces it.

    python outside_clients.py {http,grpc} HOST PORT HELD_MS COUNT {closed,open} {new,kept}

Closed: each sends its next request once it has its answer. Open: requests leave at random times,
whatever is under way, so that they take 0.7 of the server's time; as many clients as that takes.
Prints a line a request: its trace id, when its first token and its last byte came (ns) since it
was sent.
"""

import json
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

CLIENTS = 8
SHARE = 0.7  # of the server's time that an open load takes
TOGETHER = 48  # clients of an open load at the most
PATIENCE_S = 120
EVENTS, EVENT_END = 2, b"\n\n"  # of an answer
CHUNKS_END = b"0\r\n\r\n"


@dataclass(frozen=True)
class Load:
    """What the clients send."""

    address: tuple[str, int]
    held_ms: int  # by each request
    count: int
    is_open: bool
    is_kept: bool  # a client keeps its connection, if the server does

    def times(self) -> Iterator[float]:
        """Return when the requests leave at the earliest, in seconds."""
        rng, at = random.Random(1), 0.0
        for _ in range(self.count):
            at += rng.expovariate(SHARE * 1000 / self.held_ms) if self.is_open else 0
            yield at


class GrpcClient:
    """One that calls one method after the other, by a channel of its own."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._channel: Any = None

    def ask(self) -> dict[str, object]:
        """Call, and read both messages of the answer."""
        import grpc

        trace_id = os.urandom(16).hex()
        metadata = (("traceparent", f"00-{trace_id}-{os.urandom(8).hex()}-01"),)
        if self._channel is None:
            options = (("grpc.use_local_subchannel_pool", 1),)
            host, port = self._load.address
            self._channel = grpc.insecure_channel(f"{host}:{port}", options)
            grpc.channel_ready_future(self._channel).result(PATIENCE_S)
        call = self._channel.unary_stream("/held.Server/Held")
        began_ns = time.monotonic_ns()
        answer = call(str(self._load.held_ms).encode(), metadata=metadata, timeout=PATIENCE_S)
        next(answer)
        first_ns = time.monotonic_ns()
        for _ in answer:
            pass
        ended_ns = time.monotonic_ns()
        if not self._load.is_kept:
            self._channel.close()
            self._channel = None
        return {
            "trace_id": trace_id,
            "first_ns": first_ns - began_ns,
            "ended_ns": ended_ns - began_ns,
        }


class Client:
    """One that sends one request after the other."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._connection: socket.socket | None = None

    def ask(self) -> dict[str, object]:
        """Send a request and read its answer; once more if the connection was closed at rest."""
        is_old = self._connection is not None
        try:
            return self._ask()
        except ConnectionError:
            self._connection = None
            if not is_old:
                raise
        return self._ask()

    def _ask(self) -> dict[str, object]:
        trace_id = os.urandom(16).hex()
        headers = f"Host: a\r\ntraceparent: 00-{trace_id}-{os.urandom(8).hex()}-01\r\n"
        if not self._load.is_kept:
            headers += "Connection: close\r\n"
        request = f"GET /held?{self._load.held_ms} HTTP/1.1\r\n{headers}\r\n".encode()
        connection = self._connection or self._connected()
        began_ns = time.monotonic_ns()  # eight that connect at once wait for each other
        connection.sendall(request)
        answer = b""
        while not answer.partition(b"\r\n\r\n")[2]:  # an event comes in one piece
            answer += self._read(connection)
        first_ns = time.monotonic_ns()
        head, _, body = answer.partition(b"\r\n\r\n")
        head = head.lower()
        ending = CHUNKS_END if b"transfer-encoding: chunked" in head else EVENT_END
        while body.count(EVENT_END) < EVENTS or not body.endswith(ending):
            body += self._read(connection)
        ended_ns = time.monotonic_ns()
        closes = head.startswith(b"http/1.0") or b"connection: close" in head
        is_over = closes or not self._load.is_kept
        if is_over:
            connection.close()
        self._connection = None if is_over else connection
        return {
            "trace_id": trace_id,
            "first_ns": first_ns - began_ns,
            "ended_ns": ended_ns - began_ns,
        }

    def _connected(self) -> socket.socket:
        connection = socket.create_connection(self._load.address, PATIENCE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    @staticmethod
    def _read(connection: socket.socket) -> bytes:
        part = connection.recv(1 << 16)
        if not part:
            raise ConnectionError("the server has closed the connection")
        return part


def run(load: Load, kind: Callable[[Load], Client | GrpcClient]) -> list[dict[str, object]]:
    """Have all clients send a load."""
    told: list[dict[str, object]] = []
    lock, began, times = threading.Lock(), time.monotonic(), load.times()

    def work() -> None:
        client = kind(load)
        while True:
            with lock:
                at = next(times, None)
            if at is None:
                return
            time.sleep(max(began + at - time.monotonic(), 0))
            told.append(client.ask())

    threads = [threading.Thread(target=work) for _ in range(TOGETHER if load.is_open else CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


if __name__ == "__main__":
    with suppress(OSError):  # what they wait for themselves is none of the server's
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    protocol, host, port, held_ms, count, way, connections = sys.argv[1:]
    asked = Load((host, int(port)), int(held_ms), int(count), way == "open", connections == "kept")
    for line in run(asked, GrpcClient if protocol == "grpc" else Client):
        print(json.dumps(line))
