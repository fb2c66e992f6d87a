"""A server's thread that a test holds, while another request lies in its socket."""

import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pytest

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.http import own_sockets
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, hooked
from tests.support.servers.serving import get
from tests.support.waiting import PATIENCE_S, until

# The kernel's clock has 100 to 1000 steps a second, and is some of them late where a virtual
# machine waits for a processor.
JIFFY_NS = 50_000_000
HELD_NS = 60_000_000
HOLDS, WAITS = "/holds", "/waits"


class Gate:
    """What a handler holds its thread with, until the test lets it go."""

    def __init__(self) -> None:
        self.holds, self.opened = threading.Event(), threading.Event()
        self.began_ns = self.opened_ns = 0

    def hold(self) -> None:
        """Hold the current thread."""
        self.began_ns = monotonic_ns()
        self.holds.set()
        assert self.opened.wait(PATIENCE_S)

    def open(self, not_before_ns: int) -> None:
        """Let it go, at a monotonic time or later."""
        until(lambda: monotonic_ns() >= not_before_ns)
        self.opened_ns = monotonic_ns()
        self.opened.set()


def looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all connections looked through each time, however many other tests left open."""
    monkeypatch.setattr(own_sockets, "_MOST_NS", 10**15)
    monkeypatch.setattr(own_sockets, "_PAUSES", 0)
    monkeypatch.setattr(own_sockets, "_resumes_ns", 0)
    monkeypatch.setattr(own_sockets, "_below", sys.maxsize)


Serving = Callable[[Gate], AbstractContextManager[str]]


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as its client saw it."""

    at_ns: int  # when all of it was in the socket of the server
    answered_ns: int


def connected(url: str) -> socket.socket:
    """Connect to a server."""
    host, _, port = url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), PATIENCE_S)


def ask(client: socket.socket, path: str, body: bytes = b"") -> None:
    """Send a request whose answer is to be the connection's last."""
    client.sendall(request(path, body))


def request(path: str, body: bytes = b"", *, last: bool = True) -> bytes:
    """Write a request."""
    ending = "close" if last else "keep-alive"
    method = "POST" if body else "GET"
    return (
        f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: {ending}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def read_all(client: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    parts = []
    while part := client.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def sent_while_held(
    url: str,
    gate: Gate,
    client: socket.socket | None = None,
    send: Callable[[socket.socket], None] = lambda client: ask(client, WAITS),
) -> Sent:
    """Have one request hold the server's thread, and send another meanwhile.

    Args:
        url: Of the server.
        gate: That `/holds` holds its thread with.
        client: A connection that is there already; None: a new one.
        send: Sends the other request.
    """
    with ThreadPoolExecutor(1) as holders:
        holder = holders.submit(get, url + HOLDS)
        assert gate.holds.wait(PATIENCE_S)
        with client or connected(url) as waiter:
            until(lambda: monotonic_ns() - gate.began_ns >= JIFFY_NS)
            send(waiter)
            at_ns = monotonic_ns()
            gate.open(at_ns + HELD_NS)
            assert b" 200 " in read_all(waiter)
            answered_ns = monotonic_ns()
        holder.result()
    return Sent(at_ns, answered_ns)


def requests_to(spans: Spans, path: str) -> list[RecordedSpan]:
    """Return the server's spans of a path, once one has ended."""

    def found() -> list[RecordedSpan]:
        return [span for span in spans.all if span.attributes.get("url.path") == path]

    until(lambda: bool(found()))
    return found()


def waits_of(spans: Spans, span: RecordedSpan) -> list[RecordedSpan]:
    """Return what a request waited for before it was taken up."""
    return [wait for wait in spans.of(Stage.QUEUE) if wait.parent_id == span.span_id]


def a_request_begins_when_it_came(serve: Serving, *hooks: type[Hook]) -> None:
    """Have another request hold the thread while a client sends one, which begins when sent."""
    gate = Gate()
    with hooked(*hooks) as spans, serve(gate) as url:
        get(f"{url}/first")  # what is before it is the start of the process
        sent = sent_while_held(url, gate)

        (span,) = requests_to(spans, WAITS)
        (wait,) = waits_of(spans, span)
        assert gate.began_ns - JIFFY_NS <= span.started_ns <= sent.at_ns + JIFFY_NS
        assert wait.started_ns == span.started_ns
        assert wait.ended_ns >= sent.at_ns + HELD_NS
        assert " held by GET" in wait.name


def what_is_behind_another_does_not_wait(serve: Serving, *hooks: type[Hook]) -> None:
    """Send two requests at once on one connection: the second begins when that is free."""
    gate = Gate()
    with hooked(*hooks) as spans, serve(gate) as url:
        with connected(url) as client:
            client.sendall(request(HOLDS, last=False) + request(WAITS))
            assert gate.holds.wait(PATIENCE_S)
            gate.open(gate.began_ns + HELD_NS)
            served = read_all(client).count(b" 200 ")

        if served == 1:
            pytest.skip("this server answers one request of a connection")
        (span,) = requests_to(spans, WAITS)
        assert span.started_ns >= gate.opened_ns  # so it is after the first was answered
