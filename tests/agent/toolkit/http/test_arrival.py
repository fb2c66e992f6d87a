"""When the bytes came that a server reads, as Linux tells it."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.context import Context

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import enter, leave
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.timing.processor_waits import ProcessorWaits
from latencytrace.agent.timing.runtime_gaps import REQUEST, OpenRequests
from latencytrace.agent.toolkit.http import arrival
from latencytrace.agent.toolkit.http.arrival import answered, arrived_ns
from tests.support.agent.held import HELD_NS, JIFFY_NS
from tests.support.agent.told_schedstat import ToldSchedstat
from tests.support.waiting import until

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


class Refusing:
    """A socket in a sandbox, or one of a kernel that tells less."""

    def __init__(self, told: bytes | Exception) -> None:
        self._told = told

    def getsockopt(self, *_: int) -> bytes:
        """Answer as that kernel does."""
        if isinstance(self._told, Exception):
            raise self._told
        return self._told


@pytest.fixture
def told(tmp_path: Path) -> ToldSchedstat:
    """Waits for a processor, of which there are none until the test says so."""
    return ToldSchedstat(tmp_path)


@pytest.fixture
def requests(told: ToldSchedstat) -> Iterator[OpenRequests]:
    """Requests whose threads wait for a processor as told, however busy the machine is."""
    requests = OpenRequests(raise_fault)
    requests.processor = processor = ProcessorWaits(told.path)
    yield requests
    processor.reset_after_fork()


def hold(requests: OpenRequests) -> int:
    """Have their thread held for `HELD_NS` until now; return since when."""
    began_ns = monotonic_ns()
    until(lambda: monotonic_ns() - began_ns >= HELD_NS)
    requests.holds.note(began_ns, monotonic_ns(), "GET /holds")
    return began_ns


@ON_LINUX
def test_bytes_that_lay_in_the_socket_came_when_they_were_sent(requests: OpenRequests) -> None:
    ours, theirs = socket.create_server(("127.0.0.1", 0)), socket.socket()
    with ours, theirs:
        theirs.connect(ours.getsockname())
        with ours.accept()[0] as accepted:
            theirs.sendall(b"GET / HTTP/1.1\r\n\r\n")
            sent_ns = monotonic_ns()
            began_ns = hold(requests)

            assert began_ns <= arrived_ns(requests, accepted) <= max(sent_ns, began_ns) + JIFFY_NS


@ON_LINUX
def test_bytes_are_not_older_than_what_held_the_thread(requests: OpenRequests) -> None:
    ours, theirs = socket.create_server(("127.0.0.1", 0)), socket.socket()
    with ours, theirs:
        theirs.connect(ours.getsockname())
        with ours.accept()[0] as accepted:
            theirs.sendall(b"GET / HTTP/1.1\r\n\r\n")
            sent_ns = monotonic_ns()
            until(lambda: monotonic_ns() - sent_ns >= HELD_NS)
            began_ns = hold(requests)

            assert arrived_ns(requests, accepted) >= began_ns


@ON_LINUX
def test_bytes_lay_in_the_socket_as_long_as_the_thread_waited_for_a_processor(
    told: ToldSchedstat, requests: OpenRequests
) -> None:
    processor = requests.processor
    ours, theirs = socket.create_server(("127.0.0.1", 0)), socket.socket()
    with ours, theirs:
        theirs.connect(ours.getsockname())
        with ours.accept()[0] as accepted:
            theirs.sendall(b"GET / HTTP/1.1\r\n\r\n")
            sent_ns = monotonic_ns()
            processor.read()
            until(lambda: monotonic_ns() - sent_ns >= HELD_NS)
            processor.likely_by_ns = monotonic_ns() + HELD_NS
            nothing_ns = arrived_ns(requests, accepted)
            told.wait(HELD_NS // 2)

            before_ns = monotonic_ns()
            came_ns = arrived_ns(requests, accepted)

    assert nothing_ns >= sent_ns + HELD_NS  # it lay there for another reason
    assert before_ns - HELD_NS // 2 <= came_ns <= monotonic_ns() - HELD_NS // 2
    wait = requests.holds.wait(came_ns, came_ns + HELD_NS // 2)
    assert wait is not None
    assert wait.processor_ns == HELD_NS // 2


@ON_LINUX
@pytest.mark.parametrize("is_aligned", [True, False], ids=["Linux 6.4", "before"])
def test_bytes_that_another_thread_handed_on_came_when_they_were_sent_behind_the_last_answer(
    monkeypatch: pytest.MonkeyPatch, requests: OpenRequests, *, is_aligned: bool
) -> None:
    monkeypatch.setattr(arrival, "_IS_ALIGNED", is_aligned and arrival._IS_ALIGNED)
    ours, theirs = socket.create_server(("127.0.0.1", 0)), socket.socket()
    with ours, theirs:
        theirs.connect(ours.getsockname())
        with ours.accept()[0] as accepted:
            theirs.sendall(b"GET / HTTP/1.1\r\n\r\n")
            sent_ns = monotonic_ns()
            until(lambda: monotonic_ns() - sent_ns >= HELD_NS)
            requests.processor.likely_by_ns = monotonic_ns() + HELD_NS
            came_ns = arrived_ns(requests, accepted, is_handed_on=True)
            answered(accepted)
            answered_ns = monotonic_ns()
            behind_ns = arrived_ns(requests, accepted, is_handed_on=True)

    assert sent_ns - JIFFY_NS <= came_ns <= sent_ns + JIFFY_NS
    wait = requests.holds.wait(came_ns, sent_ns + HELD_NS)
    assert wait is not None
    assert wait.by == ""
    assert behind_ns >= answered_ns - JIFFY_NS


def test_within_another_request_what_is_read_came_now(requests: OpenRequests) -> None:
    hold(requests)
    token = enter(Context({REQUEST: object()}))
    try:
        before_ns = monotonic_ns()
        assert arrived_ns(requests, Refusing((2**32 - 1).to_bytes(4, "little") * 14)) >= before_ns
    finally:
        leave(token)


@pytest.mark.parametrize(
    "connection",
    [
        None,
        object(),
        Refusing(OSError("not here")),
        Refusing(b""),
        Refusing(bytes(52)),
        socket.socket(socket.AF_UNIX),
    ],
    ids=["none", "no socket", "refused", "nothing", "older", "unix"],
)
def test_where_the_kernel_does_not_tell_what_is_read_came_now(
    requests: OpenRequests, connection: object
) -> None:
    hold(requests)
    before_ns = monotonic_ns()

    assert arrived_ns(requests, connection) >= before_ns


def test_the_kernel_is_not_asked_where_nothing_held_the_thread(requests: OpenRequests) -> None:
    assert arrived_ns(requests, Refusing(AssertionError("asked"))) <= monotonic_ns()
