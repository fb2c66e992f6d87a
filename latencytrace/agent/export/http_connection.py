"""A connection over HTTP/1.1, with no more of HTTP than a post of OTLP needs.

Loaded with the first post, since a program may end without one. `http.client` would cost that
post, and so the end of each short program, four times as much: it imports what reads mail, and
TLS. It is also what others patch, such as vcrpy for the cassettes of a program's tests.
"""

import _socket
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.export.transport import TransportOptions

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MOST_BYTES: Final = 64 << 10  # of a line, or of an answer's content; more is not read
_MOST_LINES: Final = 100  # of headers
_ANSWERS: Final = 200  # the first status that is no word on the way
_UNKNOWN: Final = -1  # length: the content ends with the connection
_WITHOUT_CONTENT: Final = frozenset({204, 304})


class Answer(NamedTuple):
    """A server's answer."""

    status: int
    reason: str
    headers: Mapping[str, str]  # names in lower case
    content: bytes
    is_whole: bool  # False: the server went on beyond what is read
    may_stay: bool  # the connection, for another post


class _ReadInTime(io.RawIOBase):
    """Bytes that come over a socket, until a moment at the latest."""

    until_ns = 0

    def __init__(self, connection: _socket.socket) -> None:
        self._connection = connection

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Take what came, or wait for it.

        Raises:
            TimeoutError: The time is over.
        """
        left_ns = self.until_ns - monotonic_ns()
        if left_ns <= 0:
            raise TimeoutError("timed out")
        self._connection.settimeout(left_ns / 1e9)
        return self._connection.recv_into(buffer)


class Connection:
    """A connection to one server, for one post after another.

    Args:
        timeout_s: How long to wait for it.
        tls: Certificates; None: no TLS.

    Raises:
        OSError: Nothing listens there.
    """

    def __init__(
        self, host: str, port: int, timeout_s: float, tls: TransportOptions | None
    ) -> None:
        name = host.encode("ascii" if host.isascii() else "idna")
        at = f"[{host}]" if ":" in host else name.decode()
        is_default = port == (80 if tls is None else 443)
        self._at = at if is_default else f"{at}:{port}"
        self._socket = connected(name, port, timeout_s)
        try:
            if tls is not None:
                self._socket = tls.tls().wrap_socket(self._socket, server_hostname=host)  # type: ignore[arg-type] # any will do
        except BaseException:
            self._socket.close()
            raise
        self._raw = _ReadInTime(self._socket)
        self._file = io.BufferedReader(self._raw)

    def post(self, path: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Answer:
        """Send a body, and read the answer; the whole of that within the time.

        Raises:
            ConnectionError: The server sent no answer of HTTP's.
            OSError: The receiver sent no answer in time.
            ValueError: A header is none.
        """
        named = {"Host": self._at, "Accept-Encoding": "identity", "Content-Length": len(body)}
        lines = (f"{name}: {value}" for name, value in {**named, **headers}.items())
        head = [f"POST {path} HTTP/1.1", *lines]
        if any(set(line) & {"\r", "\n", "\0"} for line in head):
            raise ValueError("a header has a line break in it")
        self._raw.until_ns = monotonic_ns() + int(timeout_s * 1e9)
        self._socket.settimeout(timeout_s)
        self._socket.sendall("\r\n".join((*head, "\r\n")).encode("latin-1") + body)
        try:
            return self._answer()
        except ValueError:
            raise ConnectionError("it does not answer as HTTP has it") from None

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close()

    def _answer(self) -> Answer:
        version, status, reason = self._status()
        headers = self._headers()
        while status < _ANSWERS:
            version, status, reason = self._status()
            headers = self._headers()
        content, is_whole, has_end = self._content(status, headers)
        closes = "close" in headers.get("connection", "").lower() or version != "HTTP/1.1"
        may_stay = is_whole and has_end and not closes
        return Answer(status, reason, headers, content, is_whole, may_stay)

    def _status(self) -> tuple[str, int, str]:
        version, code, reason = (*self._line().split(None, 2), "", "")[:3]
        if not version.startswith("HTTP/") or not 100 <= int(code) <= 999:  # noqa: PLR2004 - HTTP's
            raise ValueError(version)
        return version, int(code), reason.strip()

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for _ in range(_MOST_LINES):
            line = self._line()
            if not line:
                return headers
            name, _, value = line.partition(":")
            headers.setdefault(name.strip().lower(), value.strip())
        raise ValueError("too many headers")

    def _content(self, status: int, headers: Mapping[str, str]) -> tuple[bytes, bool, bool]:
        """Return the content, whether it is whole, and whether it has an end of its own."""
        if status in _WITHOUT_CONTENT:
            return b"", True, True
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._chunks()
        size = headers.get("content-length", "")
        length = int(size) if size.isdecimal() else _UNKNOWN
        content = self._file.read(MOST_BYTES if length < 0 else min(length, MOST_BYTES))
        return content, len(content) < MOST_BYTES, len(content) == length

    def _chunks(self) -> tuple[bytes, bool, bool]:
        content = b""
        while length := int(self._line().partition(";")[0], 16):
            if length < 0:
                raise ValueError("a chunk has no length")
            chunk = self._file.read(min(length, MOST_BYTES))
            content += chunk
            if len(content) >= MOST_BYTES:
                return content[:MOST_BYTES], False, False
            if len(chunk) < length or self._line():
                raise ValueError("a chunk has no end")
        while self._line():  # trailers
            continue
        return content, True, True

    def _line(self) -> str:
        line = self._file.readline(MOST_BYTES + 1)
        if not line.endswith(b"\n"):
            if line:
                raise ValueError("a line has no end")
            raise ConnectionResetError("it closed the connection without an answer")
        return line.decode("latin-1").rstrip("\r\n")


def connected(host: bytes, port: int, timeout_s: float) -> _socket.socket:
    """Connect as `socket.create_connection` does, whatever stands in the place of that.

    Raises:
        OSError: Nothing listens there.
    """
    error: OSError = OSError(f"{host.decode()} has no address")
    for family, kind, protocol, _, at in _socket.getaddrinfo(host, port, 0, _socket.SOCK_STREAM):
        made = _socket.socket(family, kind, protocol)
        try:
            made.settimeout(timeout_s)
            made.connect(at)
            made.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        except OSError as one:
            made.close()
            error = one
        else:
            return made
    raise error
