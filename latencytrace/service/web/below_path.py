"""Pages below a path of a proxy: what leads to a page leads to it there.

Within, the service has its pages at `/`. What the proxy asks for may still have the path before
it, or have lost it already.
"""

import re
from collections.abc import MutableMapping
from typing import Any, Final

from latencytrace.service.net.edge import Application, Receive, Scope, Send

FORWARDED: Final = "X-Forwarded-Prefix"  # in the place of a path: the proxy's header says it

_PATH = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,63}){1,8}")
# An address within the pages, where a tag has one; texts of senders have no quotes in tags.
_ADDRESS = re.compile(rb'((?:href|src|action|data-absolute)="|content="0; url=)(/(?!/))')
_LONGEST: Final = 64  # bytes that may begin such a place: they wait for what follows
_DESCRIPTION: Final = "/openapi.json"


class BelowPath:
    """Serves an application below a path.

    Args:
        application: The application, with its pages at `/`.
        root_path: The path, or `FORWARDED`.
    """

    def __init__(self, application: Application, root_path: str) -> None:
        self._application = application
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI request."""
        root_path = self._root_path
        if root_path == FORWARDED:
            headers = {name.lower(): value for name, value in scope["headers"]}
            root_path = headers.get(FORWARDED.lower().encode(), b"").decode("latin-1").rstrip("/")
        if not _PATH.fullmatch(root_path):
            await self._application(scope, receive, send)
            return
        path = scope["path"]
        if path == root_path or path.startswith(f"{root_path}/"):
            path = path.removeprefix(root_path) or "/"
        below = {**scope, "path": path, "raw_path": path.encode()}
        if path == _DESCRIPTION:  # which names where the API is
            below |= {"path": root_path + path, "root_path": root_path}
        await self._application(below, receive, _Answer(send, root_path.encode()).send)


class _Answer:
    """Writes the path before the addresses in an answer."""

    def __init__(self, send: Send, root_path: bytes) -> None:
        self._send = send
        self._root_path = root_path
        self._is_page = False
        self._rest = b""  # of a body

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a part of an answer."""
        if message["type"] == "http.response.start":
            message = {**message, "headers": self._headers(message.get("headers", ()))}
        elif message["type"] == "http.response.body" and self._is_page:
            message = {**message, "body": self._body(message)}
        await self._send(message)

    def _headers(self, sent: Any) -> list[tuple[bytes, bytes]]:
        headers = [(name.lower(), value) for name, value in sent]
        self._is_page = dict(headers).get(b"content-type", b"").startswith(b"text/html")
        return [
            (name, self._header(name, value))
            for name, value in headers
            if not (self._is_page and name == b"content-length")  # it becomes longer
        ]

    def _header(self, name: bytes, value: bytes) -> bytes:
        if name == b"location" and value.startswith(b"/") and not value.startswith(b"//"):
            return self._root_path + value
        if name == b"set-cookie":
            return re.sub(rb"(?i)(; path=)/(?=;|$)", rb"\1" + self._root_path, value)
        return value

    def _body(self, message: MutableMapping[str, Any]) -> bytes:
        body = self._rest + message.get("body", b"")
        at = len(body)
        if message.get("more_body"):  # an address may be cut in two
            last = body.rfind(b" ", max(at - _LONGEST, 0))
            at = last if last >= 0 else at
        self._rest = body[at:]
        return _ADDRESS.sub(rb"\1" + self._root_path + rb"\2", body[:at])
