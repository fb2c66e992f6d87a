"""Connections of this process that are found by their other end."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from latencytrace.agent.toolkit.http import own_sockets
from latencytrace.agent.toolkit.http.own_sockets import PeersConnection, opened
from tests.support.agent.held import looks_each_time

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="others have no /proc/self/fd")
NODELAY = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 4)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look through all connections each time."""
    looks_each_time(monkeypatch)


@pytest.fixture(params=["127.0.0.1", "::ffff:127.0.0.1", "::1"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, str]]:
    """A server's socket, and its peer as gRPC names it."""
    host = request.param.removeprefix("::ffff:")
    named = f"ipv6:%5B{host}%5D" if ":" in host else f"ipv4:{host}"
    with (
        listening(both=":" in request.param) as listener,
        socket.create_connection((host, listener.getsockname()[1])) as client,
    ):
        accepted, _ = listener.accept()
        with accepted:
            yield accepted, f"{named}:{client.getsockname()[1]}"


def listening(*, both: bool) -> socket.socket:
    if not both:
        return socket.create_server(("127.0.0.1", 0))
    return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)


def numbers() -> list[int]:
    return sorted(int(path.name) for path in Path("/proc/self/fd").iterdir())


def test_a_connection_is_found_by_its_peer_and_asked(pair: tuple[socket.socket, str]) -> None:
    accepted, peer = pair
    before = PeersConnection(peer).getsockopt(*NODELAY)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    assert PeersConnection(peer).getsockopt(*NODELAY) != before
    assert accepted.getsockopt(*NODELAY) == PeersConnection(peer).getsockopt(*NODELAY)


def test_one_that_is_closed_is_not_found(pair: tuple[socket.socket, str]) -> None:
    accepted, peer = pair
    PeersConnection(peer).getsockopt(*NODELAY)
    number = accepted.fileno()
    accepted.close()
    with socket.socket() as another:  # takes its number
        assert another.fileno() == number
        with pytest.raises(OSError):  # noqa: PT011 - of whatever kind
            PeersConnection(peer).getsockopt(*NODELAY)


def test_what_has_no_peer_is_not_found() -> None:
    with pytest.raises(OSError):  # noqa: PT011 - of whatever kind
        PeersConnection("unix:/somewhere").getsockopt(*NODELAY)


def test_a_default_timeout_is_none_of_other_sockets(pair: tuple[socket.socket, str]) -> None:
    accepted, peer = pair
    accepted.settimeout(None)
    socket.setdefaulttimeout(10)
    try:
        with pytest.raises(OSError, match="default timeout"):
            PeersConnection(peer).getsockopt(*NODELAY)
    finally:
        socket.setdefaulttimeout(None)

    assert os.get_blocking(accepted.fileno())


def test_no_number_is_left_open(pair: tuple[socket.socket, str]) -> None:
    _, peer = pair
    reader, writer = os.pipe()
    try:
        before = numbers()
        with pytest.raises(OSError), opened(reader):  # noqa: PT011 - a pipe is no socket
            pass
        PeersConnection(peer).getsockopt(*NODELAY)
        assert numbers() == before
    finally:
        os.close(reader)
        os.close(writer)


def test_a_look_that_ends_early_goes_on_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_sockets, "_MOST_NS", 0)  # one socket a look
    monkeypatch.setattr(own_sockets, "_numbers", {})
    with socket.create_server(("127.0.0.1", 0)) as server:
        clients = [socket.create_connection(server.getsockname()) for _ in range(3)]
        accepted = [server.accept()[0] for _ in clients]
        peers = {"ipv4:{}:{}".format(*one.getpeername()) for one in accepted}

        for _ in own_sockets.sockets():
            own_sockets._look()

        for one in (*clients, *accepted):
            one.close()
    assert peers <= set(own_sockets._numbers)
