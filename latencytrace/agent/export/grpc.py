"""Sends OTLP over gRPC: a unary call on a connection that is kept, with h2 (pure Python).

Not with grpcio: in a child forked from a process that has used it, calls hang past their
deadline, and servers fork their workers. It is also nothing that a hook for gRPC would time.
"""

import _socket
import importlib.util
import logging
import threading
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.export.http_connection import connected
from latencytrace.agent.export.transport import (
    NOTHING,
    TRACES,
    Response,
    TransportOptions,
    partial_success,
)
from latencytrace.agent.process.forks import whole_imports
from latencytrace.errors import SettingsError
from latencytrace.model.texts.secrets import Secrets, parted, shown, why_no_address

if TYPE_CHECKING:
    from h2.connection import H2Connection
    from h2.events import Event

_READ_BYTES: Final = 65536
_OK: Final = 200
_PREFIX_BYTES: Final = 5  # before a message: whether it is compressed, and its length
_RESOURCE_EXHAUSTED: Final = 8
_TOO_LARGE: Final = 413
_BAD_GATEWAY: Final = 502
# What OTLP sends again is 503 here; what it does not is the status that HTTP has for it.
_CODES: Final[Mapping[int, tuple[str, int]]] = {
    0: ("OK", _OK),
    1: ("CANCELLED", 503),
    3: ("INVALID_ARGUMENT", 400),
    4: ("DEADLINE_EXCEEDED", 503),
    7: ("PERMISSION_DENIED", 403),
    _RESOURCE_EXHAUSTED: ("RESOURCE_EXHAUSTED", 429),
    10: ("ABORTED", 503),
    11: ("OUT_OF_RANGE", 503),
    12: ("UNIMPLEMENTED", 404),
    14: ("UNAVAILABLE", 503),
    15: ("DATA_LOSS", 503),
    16: ("UNAUTHENTICATED", 401),
}


class _Unlogged(logging.Filter):
    """Keeps what our own threads encode out of the program's log: hpack logs each header."""

    def __init__(self) -> None:
        super().__init__()
        self._threads: set[int] = set()
        for name in ("hpack.hpack", "hpack.table"):
            logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Let pass what others encode."""
        return record.thread not in self._threads

    def __enter__(self) -> None:
        self._threads.add(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        self._threads.discard(threading.get_ident())


_unlogged = _Unlogged()


class GrpcSender:
    """Calls one method at one address.

    Args:
        url: `http://HOST:PORT`, or `https://` with TLS; a path is left out, as
            OpenTelemetry's exporters do.
        headers: Metadata of each call.
        timeout_s: How long to wait for a response.
        options: Compression and certificates; None: neither.

    Raises:
        SettingsError: The address is none, or h2 is not installed.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        timeout_s: float,
        method: str = TRACES,
        options: TransportOptions | None = None,
    ) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
            (parts.hostname or "").encode("idna")  # else each call would fail of it
        except ValueError as error:
            raise SettingsError(f"endpoint {why_no_address(url, error)}") from None
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise SettingsError(f"endpoint {shown(url)!r} is not of the form http://HOST:PORT")
        if importlib.util.find_spec("h2") is None:
            raise SettingsError(
                "OTEL_EXPORTER_OTLP_PROTOCOL=grpc needs an extra: pip install "
                "'latencytrace[grpc]'; or set it to http/protobuf, and an endpoint that takes "
                "that (port 4318)"
            )
        self.url = shown(url)
        _, of_user = parted(url)
        headers = {**of_user, **headers}
        self._secrets = Secrets(url, headers)
        self._host = parts.hostname
        self._secure = parts.scheme == "https"
        self._port = port or (443 if self._secure else 80)
        self._timeout_s = timeout_s
        self._options = options or TransportOptions()
        self._headers = [
            (":method", "POST"),
            (":scheme", parts.scheme),
            (":path", method),
            (":authority", parts.netloc.rpartition("@")[2]),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "latencytrace"),
            ("grpc-timeout", f"{max(int(timeout_s * 1000), 1)}m"),
            *((("grpc-encoding", "gzip"),) if self._options.gzip else ()),
            *((name.lower(), value) for name, value in headers.items()),
        ]
        self._connection: _Connection | None = None

    def send(self, body: bytes, timeout_s: float | None = None) -> Response:
        """Make one call; a connection that was kept too long is opened anew.

        Raises:
            OSError: No receiver answered.
        """
        kept, body = self._connection is not None, self._options.packed(body)
        try:
            return self._send_once(body, timeout_s)
        except ConnectionError:
            if not kept:
                raise
        return self._send_once(body, timeout_s)

    def _send_once(self, body: bytes, timeout_s: float | None) -> Response:
        connection = self._connection or self._open()
        connection.respond_within(self._timeout_s if timeout_s is None else timeout_s)
        try:
            packed = (b"\1" if self._options.gzip else b"\0") + len(body).to_bytes(4, "big")
            headers, answered = connection.call(self._headers, packed + body)
        except OSError:
            self.close()
            raise
        if connection.is_ending:
            self.close()
        response = _response(headers)
        partial = NOTHING
        if answered[_PREFIX_BYTES:] and not answered[0] and response.status == _OK:
            partial = partial_success(answered[_PREFIX_BYTES:])
            partial = partial._replace(message=self._secrets.hidden_in(partial.message))
        return response._replace(reason=self._secrets.hidden_in(response.reason), partial=partial)

    def _open(self) -> "_Connection":
        opened = connected(self._host.encode("idna"), self._port, self._timeout_s)
        try:
            if self._secure:
                context = self._options.tls()
                context.set_alpn_protocols(["h2"])
                opened = context.wrap_socket(opened, server_hostname=self._host)  # type: ignore[arg-type] # any will do
            self._connection = _Connection(opened)
        except BaseException:
            opened.close()
            raise
        return self._connection

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.socket.close()


class _Connection:
    """One HTTP/2 connection, with one call at a time."""

    def __init__(self, opened: _socket.socket) -> None:
        # Loaded where it is used, by the exporter's thread: importing it takes a while.
        with whole_imports.lock:
            from h2.config import H2Configuration
            from h2.connection import H2Connection

        self.socket = opened
        self.is_ending = False  # the receiver takes no more calls
        self._http: H2Connection = H2Connection(H2Configuration())
        self._http.initiate_connection()
        self._until_ns = 0

    def respond_within(self, timeout_s: float) -> None:
        """Begin to count the time that the next call may take, whatever comes meanwhile."""
        self._until_ns = monotonic_ns() + int(timeout_s * 1e9)

    def call(self, headers: list[tuple[str, str]], message: bytes) -> tuple[dict[str, str], bytes]:
        """Return the headers and trailers of the response, and its message with its prefix.

        Raises:
            OSError: None came.
        """
        from h2.exceptions import ProtocolError

        try:
            stream = self._http.get_next_available_stream_id()
            with _unlogged:
                self._http.send_headers(stream, headers)
            response = _CallResponse(stream)
            self._send(response, message)
            while not response.is_ended:
                self._read(response)
        except ProtocolError as error:
            raise ConnectionError(f"what answers speaks no gRPC: {type(error).__name__}") from None
        return response.headers, response.answered

    def _send(self, response: "_CallResponse", message: bytes) -> None:
        """Send a message as fast as the receiver takes it, unless it answers before."""
        view = memoryview(message)
        while view and not response.is_ended:
            window = self._http.local_flow_control_window(response.stream)
            size = min(window, self._http.max_outbound_frame_size, len(view))
            if size:
                self._http.send_data(response.stream, bytes(view[:size]), size == len(view))
                view = view[size:]
                self._say()
            else:
                self._read(response)

    def _read(self, response: "_CallResponse") -> None:
        """Take in what the receiver says next; its pings are no response."""
        self._say()
        received = self.socket.recv(_READ_BYTES)
        if not received:
            raise ConnectionResetError("the receiver closed the connection")
        for event in self._http.receive_data(received):
            response.take(event, self._http)
            self.is_ending = self.is_ending or response.is_last
        self._say()

    def _say(self) -> None:
        """Send what is to be sent, in the time that is left for all of the call."""
        left_s = (self._until_ns - monotonic_ns()) / 1e9
        if left_s <= 0:
            raise TimeoutError("timed out")
        self.socket.settimeout(left_s)
        self.socket.sendall(self._http.data_to_send())


class _CallResponse:
    """Headers and state of the response to one call, as far as it has come."""

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.headers: dict[str, str] = {}
        self.answered = b""
        self.is_ended = False
        self.is_last = False  # the connection ends with it

    def take(self, event: "Event", http: "H2Connection") -> None:
        """Take in one event of the connection.

        Raises:
            ConnectionError: The receiver ended the connection, or the call, without an answer.
        """
        from h2 import events

        match event:
            case events.ResponseReceived() | events.TrailersReceived():
                self.headers |= _texts(event.headers or ())
            case events.DataReceived():
                self.answered = (self.answered + (event.data or b""))[:_READ_BYTES]
                http.acknowledge_received_data(event.flow_controlled_length or 0, self.stream)
            case events.StreamEnded():
                self.is_ended = True
            case events.StreamReset():
                self.is_ended = True
                if "grpc-status" not in self.headers:
                    raise ConnectionResetError(f"the receiver cut the call: {event.error_code}")
            case events.ConnectionTerminated():
                self.is_last = True
                if not self.is_ended and (event.last_stream_id or 0) < self.stream:
                    raise ConnectionResetError(f"the receiver is ending: {event.error_code}")
            case _:
                pass


def _texts(headers: Iterable[tuple[str | bytes, str | bytes]]) -> dict[str, str]:
    return {
        key if isinstance(key, str) else key.decode("latin-1"): (
            value if isinstance(value, str) else value.decode("latin-1")
        )
        for key, value in headers
    }


def _response(headers: Mapping[str, str]) -> Response:
    """Return the headers and trailers of a call as HTTP would have said them."""
    status_text = headers.get("grpc-status", "")
    if not status_text.isdecimal():  # not gRPC: a proxy's page, say
        page = headers.get(":status", "")
        return Response(
            int(page) if page.isdecimal() and page != str(_OK) else _BAD_GATEWAY, "no gRPC", None
        )
    code = int(status_text)
    name, status = _CODES.get(code, (f"gRPC status {code}", 500))
    retry_after_s = _retry_after_s(headers.get("grpc-status-details-bin", ""))
    if code == _RESOURCE_EXHAUSTED and retry_after_s is None:
        status = _TOO_LARGE  # the specification: without a time it is not sent again
    message = unquote(headers.get("grpc-message", ""))
    return Response(status, f"{name}: {message}" if message else name, retry_after_s)


def _retry_after_s(details: str) -> float | None:
    """Return when to send again, where the receiver says it."""
    if not details:
        return None
    # Loaded where it is needed: importing protobuf takes 0.1 s.
    with whole_imports.lock:
        from google.protobuf.message import DecodeError
        from google.rpc.error_details_pb2 import RetryInfo
        from google.rpc.status_pb2 import Status

    try:
        status = Status.FromString(b64decode(details + "=" * (-len(details) % 4)))
    except (ValueError, DecodeError):
        return None
    for detail in status.details:
        retry = RetryInfo()
        if detail.Unpack(retry):
            return float(retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9)
    return None
