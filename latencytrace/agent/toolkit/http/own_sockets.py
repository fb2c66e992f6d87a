"""The socket of a connection that a server in C keeps to itself, found by its other end."""

import _socket
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from time import thread_time_ns
from typing import Final
from urllib.parse import unquote

from latencytrace.agent.clock import monotonic_ns

_FOLDER: Final = "/proc/self/fd"
_PAUSES: Final = 20  # times as long as it took to look through them
_MOST_NS: Final = 2_000_000  # of a processor that one look takes: it holds the thread that asks
_KEPT: Final = 4096
_MAPPED: Final = "::ffff:"  # before an IPv4 address of a socket that takes both

_numbers: dict[str, int] = {}  # of sockets, by their peers as gRPC names them
_resumes_ns = 0
_below = sys.maxsize  # where the next look goes on


class PeersConnection:
    """A connection of this process, as far as the kernel is asked about it.

    Args:
        peer: Who is at its other end, as gRPC says: `ipv4:127.0.0.1:40312`.
    """

    __slots__ = ("_peer",)

    def __init__(self, peer: str) -> None:
        self._peer = unquote(peer)

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        """Ask its socket, by a number of its own: the server may close it at any time.

        Raises:
            OSError: It is not found, or closed by now.
        """
        if not self._peer.startswith(("ipv4:", "ipv6:")):
            raise OSError(f"{self._peer} is none of TCP's")
        if _peer_at(_numbers.get(self._peer, -1)) != self._peer:
            _look()
        with opened(_numbers.get(self._peer, -1)) as found:
            if _named(found) != self._peer:
                raise OSError(f"{self._peer} is not found among the connections")
            return found.getsockopt(level, option, size)


def _look() -> None:
    """Find connections, where the last look ended, unless that was too lately."""
    global _resumes_ns, _below  # noqa: PLW0603 - one of a process, as its sockets are
    if monotonic_ns() < _resumes_ns or sys.platform != "linux":
        return
    began_ns = thread_time_ns()  # not what others have of the processor meanwhile
    if len(_numbers) >= _KEPT:
        _numbers.clear()
    below, _below = _below, sys.maxsize
    for number in sockets(below):
        if peer := _peer_at(number):
            _numbers[peer] = number
        if thread_time_ns() - began_ns >= _MOST_NS:
            _below = number
            break
    _resumes_ns = monotonic_ns() + _PAUSES * (thread_time_ns() - began_ns)


def sockets(below: int = sys.maxsize) -> Iterator[int]:
    """Yield the numbers of this process's sockets, those below a number first."""
    with suppress(OSError):
        numbers = map(int, os.listdir(_FOLDER))  # noqa: PTH208 - many, and their numbers alone
        for number in sorted(numbers, key=lambda one: (one >= below, -one)):
            with suppress(OSError):  # closed by now
                if stat.S_ISSOCK(os.fstat(number).st_mode):
                    yield number


@contextmanager
def opened(number: int) -> Iterator[_socket.socket]:
    """Open a socket by another number for the length of a block.

    Raises:
        OSError: There is no socket of this number; or Python has a default timeout, with which
            it would have the socket block no more, the other number's as well.
    """
    if _socket.getdefaulttimeout() is not None:
        raise OSError("sockets have a default timeout")
    own = os.dup(number)
    try:
        found = _socket.socket(fileno=own)
    except OSError:
        os.close(own)
        raise
    with closing(found):
        yield found


def _peer_at(number: int) -> str:
    """Return who is at the other end of a socket; "": none is connected, or not by TCP."""
    with suppress(OSError), opened(number) as found:
        return _named(found)
    return ""


def _named(found: _socket.socket) -> str:
    with suppress(OSError):
        if found.family == _socket.AF_INET:
            return "ipv4:{}:{}".format(*found.getpeername())
        if found.family == _socket.AF_INET6:
            host, port, *_ = found.getpeername()
            if host.startswith(_MAPPED):
                return f"ipv4:{host.removeprefix(_MAPPED)}:{port}"
            return f"ipv6:[{host}]:{port}"
    return ""
