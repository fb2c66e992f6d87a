"""Posts OTLP over a connection that is kept alive."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from latencytrace.agent.clock import wall_ns
from latencytrace.agent.export.transport import (
    NOTHING,
    ControlChannel,
    Response,
    TransportOptions,
    partial_success,
)
from latencytrace.agent.process.forks import whole_imports
from latencytrace.errors import SettingsError
from latencytrace.model.texts.secrets import Secrets, parted, shown, why_no_address

if TYPE_CHECKING:
    from latencytrace.agent.export.http_connection import Connection

_AS_IT_IS: Final = "/?:@!$&'()*+,;=%~"  # in an address; the rest is escaped
_LONGEST_LABEL: Final = 64  # of a name, and one sign more
_OK: Final = 200
_PROTOBUF: Final = "application/x-protobuf"


class HttpSender:
    """Posts OTLP bytes to one address over a connection that is kept alive.

    Args:
        timeout_s: How long to wait for a response, the whole of it.
        options: Compression and certificates; None: neither.
        control: Returns what takes orders of the service; None, as it or of it: none are taken.

    Raises:
        SettingsError: The address is none.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        timeout_s: float,
        options: TransportOptions | None = None,
        control: Callable[[], ControlChannel | None] | None = None,
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
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._path = quote(path, safe=_AS_IT_IS)
        self._headers = {"content-type": _PROTOBUF, **headers}
        self._options = options or TransportOptions()
        if self._options.gzip:
            self._headers["content-encoding"] = "gzip"
        self._control = control
        self._timeout_s = timeout_s
        self._connection: Connection | None = None

    def send(self, body: bytes, timeout_s: float | None = None) -> Response:
        """Post one request; a connection that was kept too long is opened anew.

        Raises:
            OSError: No receiver answered.
        """
        kept, body = self._connection is not None, self._options.packed(body)
        try:
            return self._send_once(body, timeout_s)
        except ConnectionError as error:
            if not kept:
                raise ConnectionError(self._text_of(error)) from None
        return self._send_once(body, timeout_s)

    def _send_once(self, body: bytes, timeout_s: float | None) -> Response:
        connection = self._connection or self._open()
        control = None if self._control is None else self._control()
        headers = self._headers if control is None else {**self._headers, **control.headers()}
        within_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            answer = connection.post(self._path, headers, body, within_s)
        except OSError:
            self.close()
            raise
        answered = answer.headers
        if control is not None and (order := answered.get(control.order_header.lower())):
            control.receive(order)
        if not answer.may_stay:
            self.close()
        reason, partial = self._secrets.hidden_in(answer.reason), NOTHING
        kind = answered.get("content-type", _PROTOBUF).partition(";")[0].strip()
        if answer.content and answer.is_whole and (answer.status, kind) == (_OK, _PROTOBUF):
            partial = partial_success(answer.content)
            partial = partial._replace(message=self._secrets.hidden_in(partial.message))
        after_s = None
        if after := answered.get("retry-after"):
            after_s = _retry_after_s()(after, answered.get("date", ""), wall_ns())
        return Response(answer.status, reason, after_s, partial)

    def _text_of(self, error: Exception) -> str:
        """Say what happened, without secrets."""
        return self._secrets.hidden_in(str(error)) or type(error).__name__

    def _open(self) -> "Connection":
        tls = self._options if self._secure else None
        self._connection = _connection()(self._host, self._port, self._timeout_s, tls)
        return self._connection

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _is_plain(host: str) -> bool:
    """Tell whether a name is one for certain, without the tables that others are judged by."""
    labels = host.removesuffix(".").split(".")
    return host.isascii() and all(0 < len(label) < _LONGEST_LABEL for label in labels)


@cache
def _connection() -> "type[Connection]":
    """Import what takes a while; the lock is held once, for others may hold it for seconds."""
    with whole_imports.lock:
        from latencytrace.agent.export.http_connection import Connection

    return Connection


@cache
def _retry_after_s() -> Callable[[str, str, int], float | None]:
    """Import what few answers need."""
    with whole_imports.lock:
        from latencytrace.model.texts.retry_after import retry_after_s

    return retry_after_s
