"""Connections over HTTP; loaded with the first post, since a program may end without one.

They are of an `http.client` of their own: what others put in the place of its classes, such as
vcrpy for the cassettes of a program's tests, is for the program's calls.
"""

import encodings.idna  # noqa: F401 - which each connection looks up: whole before any fork
import http
import io
import socket
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Final

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.export.transport import TransportOptions, partial_success
from latencytrace.agent.native import native
from latencytrace.model.texts.retry_after import retry_after_s

if TYPE_CHECKING:
    from http import client

    from _typeshed import WriteableBuffer
else:
    _spec = PathFinder.find_spec("http.client", http.__path__)  # past what patches modules
    client = module_from_spec(_spec)
    _spec.loader.exec_module(client)

__all__ = (
    "HTTPConnection",
    "HTTPException",
    "connection_to",
    "partial_success",
    "retry_after_s",
)
HTTPException = client.HTTPException
HTTPConnection = client.HTTPConnection


_socket: Final[type[socket.socket]] = native("socket", "socket")
_addresses: Final = native("socket", "getaddrinfo")


class _ReadInTime(io.RawIOBase):
    """Bytes that come over a socket, for no longer than its time limit in all."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._raw = connection.makefile("rb", buffering=0)
        limit_s = connection.gettimeout()
        self._until_ns = None if limit_s is None else monotonic_ns() + int(limit_s * 1e9)

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        """Take what came, or wait for it.

        Raises:
            TimeoutError: The time is over.
        """
        if self._until_ns is not None:
            left_ns = self._until_ns - monotonic_ns()
            if left_ns <= 0:
                raise TimeoutError("timed out")
            self._connection.settimeout(left_ns / 1e9)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Let go of the socket."""
        self._raw.close()
        super().close()


class _TimedResponse(client.HTTPResponse):
    """A response that is given up after the time limit, even where its bytes come one by one."""

    def __init__(
        self, sock: socket.socket, debuglevel: int = 0, method: str | None = None
    ) -> None:
        super().__init__(sock, debuglevel, method)
        self.fp.close()
        self.fp = io.BufferedReader(_ReadInTime(sock))


def _connected(
    address: tuple[str, int], timeout_s: float, _source: object = None
) -> socket.socket:
    """Connect as `socket.create_connection` does, without greenlets where those are patched in."""
    error: OSError = OSError(f"{address[0]} has no address")
    for family, kind, protocol, _, at in _addresses(*address, 0, socket.SOCK_STREAM):
        made = _socket(family, kind, protocol)
        try:
            made.settimeout(timeout_s)
            made.connect(at)
        except OSError as one:
            made.close()
            error = one
        else:
            return made
    raise error


def connection_to(
    host: str, port: int, timeout_s: float, tls: TransportOptions | None
) -> HTTPConnection:
    """Connect.

    Args:
        timeout_s: How long to wait for a response, the whole of it.
        tls: Certificates; None: no TLS.

    Raises:
        OSError: Nothing listens there.
    """
    connection = (
        HTTPConnection(host, port, timeout=timeout_s)
        if tls is None
        else client.HTTPSConnection(host, port, timeout=timeout_s, context=tls.tls())
    )
    connection.response_class = _TimedResponse
    connection._create_connection = _connected  # type: ignore[attr-defined]
    connection.connect()
    return connection
