"""Arrival times of requests at a server that is not written in Python, from Linux.

The kernel says of every connection to a port, to any process (`sock_diag`), how long ago bytes
came and went, in steps of its clock (4 ms on most machines).
"""

import _socket
import struct
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Final, NamedTuple

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.native import read_file

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

    came_ns: int  # what came last, a monotonic time
    is_answered: bool  # what was sent last went later


class UnseenServer:
    """The connections of a server on this machine, which hands requests on in their order.

    To ask for them takes as long as the kernel takes to look through all sockets (0.8 ms on a
    small machine, more on one with much memory), so that it is done for a hundredth of the time.

    Args:
        address: That it listens on.
    """

    def __init__(self, address: str, port: int) -> None:
        self._family = _socket.AF_INET6 if ":" in address else _socket.AF_INET
        self._port = port
        self._came_ns: list[int] = []  # when the requests came that wait, the first first
        self._resumes_ns = 0

    def look(self, under_way: int, since_ns: int) -> bool:
        """Ask which requests wait, unless it was asked too lately.

        Args:
            under_way: How many it has handed on that have no answer yet.
            since_ns: None that has no answer came before that monotonic time.
        """
        now_ns = monotonic_ns()
        if now_ns < self._resumes_ns:
            return False
        unanswered = [one.came_ns for one in self._connections() if not one.is_answered]
        self._came_ns = sorted(at_ns for at_ns in unanswered if at_ns >= since_ns)[under_way:]
        self._resumes_ns = now_ns + _PAUSES * (monotonic_ns() - now_ns)
        return True

    def take(self, count: int) -> list[int]:
        """Return when the next requests came that it hands on, as far as that is known."""
        taken, self._came_ns = self._came_ns[:count], self._came_ns[count:]
        return taken

    def forget(self) -> None:
        """Forget what waits: others have taken some of it."""
        self._came_ns = []

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
                return Connection(came_ns, is_answered)
            at += max((length + 3) & ~3, 4)
        return None


def connected(path: str) -> int:
    """Return how many programs are connected to a Unix socket of that path; 0: unknown."""
    with suppress(OSError):
        lines = (line.split() for line in read_file("/proc/net/unix").splitlines())
        return sum(line[5:6] == [b"03"] and line[7:] == [path.encode()] for line in lines)
    return 0
