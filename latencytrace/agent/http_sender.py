"""Posts OTLP over a connection that is kept alive."""

import http.client
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit

from latencytrace.agent.sender import Answer, Exchange, Wire
from latencytrace.errors import SettingsError
from latencytrace.model.profile import ORDER_HEADER

_AS_IT_IS: Final = "/?:@!$&'()*+,;=%~"  # in an address; the rest is escaped
_ANSWER_BYTES: Final = 64 << 10  # more of an answer nobody reads


class HttpSender:
    """Posts OTLP bytes to one address over a connection that is kept alive.

    Args:
        url: The address.
        headers: Of each post.
        timeout_s: How long to wait for an answer.
        wire: How the bytes go; None: plainly.
        exchange: What is told and heard beside; None: nothing.

    Raises:
        SettingsError: The address is none.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        timeout_s: float,
        wire: Wire | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
            (parts.hostname or "").encode("idna")  # else each post would fail of it
        except ValueError as error:
            raise SettingsError(f"endpoint {url!r} is no address: {error}") from error
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise SettingsError(f"endpoint {url!r} is not of the form http://HOST:PORT")
        self.url = url
        self._host = parts.hostname
        self._secure = parts.scheme == "https"
        self._port = port or (443 if self._secure else 80)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        self._path = quote(path, safe=_AS_IT_IS)
        self._headers = {"content-type": "application/x-protobuf", **headers}
        self._wire = wire or Wire()
        if self._wire.gzip:
            self._headers["content-encoding"] = "gzip"
        self._exchange = exchange
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None

    def post(self, body: bytes, timeout_s: float | None = None) -> Answer:
        """Post one request; a connection that was kept too long is opened anew.

        Raises:
            OSError: Nobody answered.
        """
        kept, body = self._connection is not None, self._wire.packed(body)
        try:
            return self._post(body, timeout_s)
        except (http.client.HTTPException, ConnectionError) as error:
            self.close()
            if not kept:
                raise ConnectionError(str(error) or type(error).__name__) from error
        try:
            return self._post(body, timeout_s)
        except http.client.HTTPException as error:
            self.close()
            raise ConnectionError(str(error) or type(error).__name__) from error

    def _post(self, body: bytes, timeout_s: float | None) -> Answer:
        connection = self._connection or self._open()
        if timeout_s is not None and connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        told = self._exchange.headers() if self._exchange is not None else {}
        try:
            connection.request("POST", self._path, body, {**self._headers, **told})
            response = connection.getresponse()
            whole = len(response.read(_ANSWER_BYTES)) < _ANSWER_BYTES
        except TimeoutError:
            self.close()
            raise
        order = response.getheader(ORDER_HEADER)
        if order is not None and self._exchange is not None:
            self._exchange.heard(order)
        after = response.getheader("retry-after", "")
        if response.will_close or not whole:
            self.close()
        seconds = after.isascii() and after.isdecimal()
        return Answer(response.status, response.reason, float(after) if seconds else None)

    def _open(self) -> http.client.HTTPConnection:
        if self._secure:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout_s, context=self._wire.tls()
            )
        else:
            connection = http.client.HTTPConnection(
                self._host, self._port, timeout=self._timeout_s
            )
        connection.connect()
        self._connection = connection
        return connection

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
