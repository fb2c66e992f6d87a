"""When requests came to a server that is no program of Python's, as Linux tells.

The kernel says of every connection to a port, to any process (`sock_diag`), how long ago bytes
came and went, in steps of its clock (4 ms on most machines).
"""

import _socket
import struct
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from operator import attrgetter
from typing import Final, NamedTuple

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.native import read_file
from latencytrace.agent.toolkit.http.arrival import STEP_NS

_NS_PER_MS: Final = 1_000_000
_SOCK_DIAG: Final = 4  # the family's protocol
_BY_FAMILY: Final = 20
_REQUEST_DUMP: Final = 0x301
_ERROR, _DONE = 2, 3
_TCP: Final = 6
_INFO: Final = 2  # what is asked for: `struct tcp_info`
_ESTABLISHED: Final = 1 << 1
_HEADER: Final = struct.Struct("=IHHII")
_FIXED: Final = 72  # bytes of `struct inet_diag_msg`, before its attributes
_TIMES: Final = 4 + 44  # `tcpi_last_data_sent` and the following, in an attribute
_SEGMENTS: Final = 4 + 152  # `tcpi_data_segs_in` and `_out`
_RECEIVE_BYTES: Final = 1 << 16
_PATIENCE_S: Final = 0.05
_PAUSES: Final = 100  # times as long as it took


class Connection(NamedTuple):
    """One connection to a server."""

    peer: bytes
    segments: int  # with data, that came
    came_ns: int  # the last of them, a monotonic time
    is_answered: bool  # what was sent went later


class UnseenServer:
    """The connections of a server on this machine.

    To ask for them takes as long as the kernel takes to look through all sockets (0.8 ms on a
    small machine, more on one with much memory), so that it is done for a hundredth of the time.
    What is known to wait is taken in its turn meanwhile. A request that is answered within a step
    of the kernel's clock seems to wait until its connection is used again.

    Args:
        address: That it listens on.
    """

    def __init__(self, address: str, port: int) -> None:
        self._family = _socket.AF_INET6 if ":" in address else _socket.AF_INET
        self._port = port
        self._waiting: list[Connection] = []  # with requests that were not taken, the first first
        self._taken: dict[bytes, int] = {}  # segments of what was taken, by its connection
        self._resumes_ns = 0

    def taken(self, count: int, others: int, since_ns: int) -> list[int | None]:
        """Return when the requests came that the server hands on now, in their order.

        Args:
            count: How many those are.
            others: How many of those before them may be with others that it hands them to.
            since_ns: None of them came before that monotonic time.

        Returns:
            Monotonic times, None for one that just came; fewer than were asked for where it is
            not known.
        """
        now_ns = monotonic_ns()
        if now_ns >= self._resumes_ns:
            self._ask()
            self._resumes_ns = now_ns + _PAUSES * (monotonic_ns() - now_ns)
        elif others:  # which have taken some meanwhile
            return []
        waiting = [one for one in self._waiting if one.came_ns >= since_ns]
        before = max(min(others, len(waiting) - count), 0)
        now = waiting[before : before + count]
        self._waiting = waiting[before + count :]
        self._taken.update((one.peer, one.segments) for one in now)
        return [one.came_ns if now_ns - one.came_ns >= STEP_NS else None for one in now]

    def _ask(self) -> None:
        known = list(self._connections())
        its = {one.peer: self._taken.get(one.peer, 0) for one in known}
        self._taken = its
        self._waiting = sorted(
            (one for one in known if not one.is_answered and its[one.peer] != one.segments),
            key=attrgetter("came_ns"),
        )

    def _connections(self) -> Iterator[Connection]:
        if sys.platform != "linux":
            return
        with suppress(OSError, struct.error):  # no such kernel, or a sandbox that refuses
            yield from self._asked()

    def _asked(self) -> Iterator[Connection]:
        wanted = struct.pack("=BBBxI", self._family, _TCP, 1 << (_INFO - 1), _ESTABLISHED)
        ports = struct.pack("!HH", self._port, 0).ljust(36, b"\0") + b"\0\0\0\0" + b"\xff" * 8
        size = _HEADER.size + len(wanted) + len(ports)
        header = _HEADER.pack(size, _BY_FAMILY, _REQUEST_DUMP, 1, 0)
        with closing(_socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, _SOCK_DIAG)) as kernel:
            kernel.settimeout(_PATIENCE_S)
            kernel.send(header + wanted + ports)
            while True:
                answer = kernel.recv(_RECEIVE_BYTES)
                now_ns, at = monotonic_ns(), 0
                while at < len(answer):
                    length, kind, *_ = _HEADER.unpack_from(answer, at)
                    if kind in {_ERROR, _DONE}:
                        return
                    found = self._read(answer[at + _HEADER.size : at + length], now_ns)
                    if found is not None:
                        yield found
                    at += (length + 3) & ~3

    def _read(self, message: bytes, now_ns: int) -> Connection | None:
        (port,) = struct.unpack_from("!H", message, 4)
        at = _FIXED
        while port == self._port and at + 4 <= len(message):
            length, kind = struct.unpack_from("=HH", message, at)
            if kind == _INFO:
                sent_ms, _, came_ms, _ = struct.unpack_from("=IIII", message, at + _TIMES)
                segments, answers = struct.unpack_from("=II", message, at + _SEGMENTS)
                is_answered = not segments or (answers > 0 and sent_ms < came_ms)
                came_ns = now_ns - came_ms * _NS_PER_MS
                return Connection(message[4:40], segments, came_ns, is_answered)
            at += max((length + 3) & ~3, 4)
        return None


def connected(path: str) -> int:
    """Return how many programs are connected to a Unix socket of that path; 0: unknown."""
    with suppress(OSError):
        lines = (line.split() for line in read_file("/proc/net/unix").splitlines())
        return sum(line[5:6] == [b"03"] and line[7:] == [path.encode()] for line in lines)
    return 0
