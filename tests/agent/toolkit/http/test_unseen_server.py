"""When requests came to a server that we do not see: real sockets, and the real kernel."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.toolkit.http.arrival import STEP_NS
from latencytrace.agent.toolkit.http.unseen_server import UnseenServer, connected

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say it")


class Server:
    """A server, and clients that it has accepted."""

    def __init__(self, address: str, clients: int) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.create_server((address, 0), family=family)
        port = listener.getsockname()[1]
        self.clients = [socket.create_connection((address, port)) for _ in range(clients)]
        self.accepted = [listener.accept()[0] for _ in range(clients)]
        self.sockets = [listener, *self.clients, *self.accepted]
        self.unseen = UnseenServer(address, port)
        self.began_ns = monotonic_ns()

    def ask(self, client: int) -> int:
        """Send a request after some steps of the kernel's clock; when it was sent."""
        wait_for_steps()
        self.clients[client].sendall(b"a request")
        return monotonic_ns()

    def answer(self, client: int) -> None:
        """Answer it, some steps later."""
        wait_for_steps()
        self.accepted[client].recv(100)
        self.accepted[client].sendall(b"an answer")
        self.clients[client].recv(100)

    def taken(self, count: int, others: int = 0, since_ns: int = 0) -> list[int | None]:
        """Ask now, however lately it was asked."""
        self.unseen._resumes_ns = 0
        return self.unseen.taken(count, others, since_ns)


def wait_for_steps() -> None:
    until_ns = monotonic_ns() + 3 * STEP_NS
    while monotonic_ns() < until_ns:
        pass


@pytest.fixture(params=["127.0.0.1", "::1"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(request.param, 3)
    yield server
    for each in server.sockets:
        each.close()


def agree(times_ns: list[int | None], sent_ns: list[int]) -> bool:
    """Within a step of the kernel's clock, which our own asking is a step behind."""
    return len(times_ns) == len(sent_ns) and all(
        at_ns is not None and abs(at_ns - its_ns) <= 2 * STEP_NS
        for at_ns, its_ns in zip(times_ns, sent_ns, strict=True)
    )


def test_requests_are_taken_in_the_order_in_which_they_came(server: Server) -> None:
    sent_ns = [server.ask(client) for client in (2, 0, 1)]
    wait_for_steps()

    assert agree(server.taken(2), sent_ns[:2])
    assert agree(server.taken(2), sent_ns[2:])
    assert server.taken(1) == []


def test_what_is_answered_waits_no_longer_and_a_connection_is_used_again(server: Server) -> None:
    server.ask(0)
    server.answer(0)
    assert server.taken(1) == []
    sent_ns = server.ask(0)
    wait_for_steps()

    assert agree(server.taken(1), [sent_ns])


def test_what_others_have_comes_first(server: Server) -> None:
    sent_ns = [server.ask(client) for client in range(3)]
    wait_for_steps()

    assert agree(server.taken(1, others=1), sent_ns[1:2])


def test_what_just_came_has_no_time_and_what_came_before_the_queue_was_empty_is_none(
    server: Server,
) -> None:
    server.ask(0)
    empty_ns = server.ask(1) + STEP_NS
    server.ask(2)

    assert server.taken(3, since_ns=empty_ns) == [None]


def test_it_is_asked_for_a_hundredth_of_the_time_and_known_ones_are_taken(server: Server) -> None:
    sent_ns = [server.ask(client) for client in range(2)]
    wait_for_steps()
    first = server.taken(1)
    server.unseen._resumes_ns = monotonic_ns() + 3600 * 10**9
    server.ask(2)

    assert agree([*first, *server.unseen.taken(2, 0, 0)], sent_ns)
    assert server.unseen.taken(1, 1, 0) == []  # others may have taken it


def test_a_port_that_nobody_listens_on_says_nothing() -> None:
    assert UnseenServer("127.0.0.1", 9).taken(1, 0, 0) == []


def test_programs_that_are_connected_to_a_unix_socket_are_counted(tmp_path: Path) -> None:
    path = str(tmp_path / "a.socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        clients = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for client in clients:
            client.connect(path)
        accepted = [listener.accept()[0] for _ in clients]

        assert connected(path) == 2
        assert connected(f"{path}2") == 0
        for each in [*clients, *accepted]:
            each.close()
