"""Posts OTLP over a connection that is kept alive."""

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from latencytrace.agent.clock import wall_ns
from latencytrace.agent.export.transport import NOTHING, ControlChannel, Response, TransportOptions
from latencytrace.agent.process.forks import whole_imports
from latencytrace.errors import SettingsError
from latencytrace.model.texts.secrets import Secrets, parted, shown, why_no_address

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from latencytrace.agent.export.http_connection import HTTPConnection

_AS_IT_IS: Final = "/?:@!$&'()*+,;=%~"  # in an address; the rest is escaped
_LONGEST_LABEL: Final = 64  # of a name, and one sign more
_OK: Final = 200
_PROTOBUF: Final = "application/x-protobuf"
_RESPONSE_BYTES: Final = 64 << 10  # more of a response is not read


class HttpSender:
    """Posts OTLP bytes to one address over a connection that is kept alive.

    Args:
        timeout_s: How long to wait for a response, the whole of it.
        options: Compression and certificates; None: neither.
        control: Returns what takes orders of the service; None: none are taken.

    Raises:
        SettingsError: The address is none.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        timeout_s: float,
        options: TransportOptions | None = None,
        control: Callable[[], ControlChannel] | None = None,
    ) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
            if not _is_plain(parts.hostname or ""):
                (parts.hostname or "").encode("idna")  # else each post would fail of it
        except ValueError as error:
            raise SettingsError(f"endpoint {why_no_address(url, error)}") from None
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise SettingsError(f"endpoint {shown(url)!r} is not of the form http://HOST:PORT")
        self.url = shown(url)
        _, of_user = parted(url)
        headers = {**of_user, **headers}
        self._secrets = Secrets(url, headers)
        self._host = parts.hostname
        self._secure = parts.scheme == "https"
        self._port = port or (443 if self._secure else 80)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        self._path = quote(path, safe=_AS_IT_IS)
        self._headers = {"content-type": _PROTOBUF, **headers}
        self._options = options or TransportOptions()
        if self._options.gzip:
            self._headers["content-encoding"] = "gzip"
        self._control = control
        self._timeout_s = timeout_s
        self._connection: HTTPConnection | None = None

    def send(self, body: bytes, timeout_s: float | None = None) -> Response:
        """Post one request; a connection that was kept too long is opened anew.

        Raises:
            OSError: No receiver answered.
        """
        connections = _connections()
        kept, body = self._connection is not None, self._options.packed(body)
        try:
            return self._send_once(body, timeout_s)
        except (connections.HTTPException, ConnectionError) as error:
            self.close()
            if not kept:
                raise ConnectionError(self._text_of(error)) from None
        try:
            return self._send_once(body, timeout_s)
        except connections.HTTPException as error:
            self.close()
            raise ConnectionError(self._text_of(error)) from None

    def _send_once(self, body: bytes, timeout_s: float | None) -> Response:
        connection = self._connection or self._open()
        if connection.sock is not None:
            connection.sock.settimeout(self._timeout_s if timeout_s is None else timeout_s)
        control = None if self._control is None else self._control()
        of_control = {} if control is None else control.headers()
        try:
            connection.request("POST", self._path, body, {**self._headers, **of_control})
            response = connection.getresponse()
            answered = response.read(_RESPONSE_BYTES)
            whole = len(answered) < _RESPONSE_BYTES
        except TimeoutError:
            self.close()
            raise
        if control is not None and (order := response.getheader(control.order_header)):
            control.receive(order)
        after = response.getheader("retry-after", "")
        if response.will_close or not whole:
            self.close()
        reason, partial = self._secrets.hidden_in(response.reason), NOTHING
        if answered and whole and response.status == _OK and _is_protobuf(response):
            partial = _connections().partial_success(answered)
            partial = partial._replace(message=self._secrets.hidden_in(partial.message))
        seconds = None
        if after:
            date = response.getheader("date", "")
            seconds = _connections().retry_after_s(after, date, wall_ns())
        return Response(response.status, reason, seconds, partial)

    def _text_of(self, error: Exception) -> str:
        """Say what happened, without secrets."""
        return self._secrets.hidden_in(str(error)) or type(error).__name__

    def _open(self) -> "HTTPConnection":
        tls = self._options if self._secure else None
        self._connection = _connections().connection_to(
            self._host, self._port, self._timeout_s, tls
        )
        return self._connection

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _is_protobuf(response: "HTTPResponse") -> bool:
    return response.getheader("content-type", _PROTOBUF).partition(";")[0].strip() == _PROTOBUF


def _is_plain(host: str) -> bool:
    """Tell whether a name is one for certain, without the tables that others are judged by."""
    labels = host.removesuffix(".").split(".")
    return host.isascii() and all(0 < len(label) < _LONGEST_LABEL for label in labels)


@cache
def _connections() -> ModuleType:
    """Import what takes a while; the lock is held once, for others may hold it for seconds."""
    with whole_imports.lock:
        from latencytrace.agent.export import http_connection

    return http_connection
