"""Arrival times at a server that we do not see: real sockets, and the real kernel."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.toolkit.http.arrival import STEP_NS
from latencytrace.agent.toolkit.http.unseen_server import UnseenServer, connected

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say it")


HOUR_NS = 3600 * 10**9


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

    def ask(self, client: int) -> int:
        """Send a request after some steps of the kernel's clock; when it was sent."""
        wait_for_steps()
        sent_ns = monotonic_ns()
        self.clients[client].sendall(b"a request")
        return sent_ns

    def answer(self, client: int) -> None:
        """Answer it, some steps later."""
        wait_for_steps()
        self.accepted[client].recv(100)
        self.accepted[client].sendall(b"an answer")
        self.clients[client].recv(100)


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


def agree(came_ns: list[int], sent_ns: list[int]) -> bool:
    """Return whether these came when they were sent.

    A thread that waits for a processor before it looks at its clock takes a request for younger.
    """
    return len(came_ns) == len(sent_ns) and all(
        its_ns - 2 * STEP_NS <= at_ns <= monotonic_ns()
        for at_ns, its_ns in zip(came_ns, sent_ns, strict=True)
    )


def test_requests_are_taken_in_the_order_in_which_they_came(server: Server) -> None:
    sent_ns = [server.ask(client) for client in (2, 0, 1)]

    assert server.unseen.look(0, 0)
    came_ns = [*server.unseen.take(2), *server.unseen.take(2)]
    assert agree(came_ns, sent_ns)
    assert came_ns[0] < came_ns[1] < came_ns[2]  # with steps of the clock between them
    assert server.unseen.take(1) == []


def test_what_is_under_way_does_not_wait(server: Server) -> None:
    sent_ns = [server.ask(client) for client in range(3)]

    server.unseen.look(2, 0)

    assert agree(server.unseen.take(3), sent_ns[2:])


def test_what_is_answered_waits_no_longer_and_a_connection_is_used_again(server: Server) -> None:
    server.ask(0)
    server.answer(0)
    server.unseen.look(0, 0)
    assert server.unseen.take(1) == []

    sent_ns = server.ask(0)
    server.unseen._resumes_ns = 0
    server.unseen.look(0, 0)

    assert agree(server.unseen.take(1), [sent_ns])


def test_what_came_before_the_queue_was_empty_is_none(server: Server) -> None:
    server.ask(0)

    server.unseen.look(0, monotonic_ns() + HOUR_NS)

    assert server.unseen.take(1) == []


def test_it_is_asked_for_a_hundredth_of_the_time_and_what_is_known_is_taken(
    server: Server,
) -> None:
    sent_ns = [server.ask(client) for client in range(2)]
    server.unseen.look(0, 0)
    server.unseen._resumes_ns = monotonic_ns() + HOUR_NS
    server.ask(2)

    assert not server.unseen.look(0, 0)
    assert agree(server.unseen.take(3), sent_ns)


def test_what_others_may_have_taken_is_forgotten(server: Server) -> None:
    server.ask(0)
    server.unseen.look(0, 0)

    server.unseen.forget()

    assert server.unseen.take(1) == []


def test_a_port_that_nobody_listens_on_says_nothing() -> None:
    unseen = UnseenServer("127.0.0.1", 9)

    assert unseen.look(0, 0)
    assert unseen.take(1) == []


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
