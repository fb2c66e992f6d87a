"""What stands before both listeners: who may speak to them."""

import hmac
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any

from latencytrace.service.problems import MEDIA_TYPE, problem_body

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_OPEN_PATHS = frozenset({"/healthz", "/readyz"})  # probes carry no token

_ASK_LOOPBACK = (
    "the Host header names another machine, and this service listens on loopback only: ask for "
    "127.0.0.1 or localhost, or let it listen on an address that others can reach"
)
SHOW_TOKEN = "send `Authorization: Bearer TOKEN` with the service's LATENCYTRACE_TOKEN"  # noqa: S105 - no token


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Edge:
    """Refuses requests that do not name this service, or show no token where one is asked.

    A page elsewhere can make a browser post to loopback under a name of its own (DNS
    rebinding); the Host header gives it away.

    Args:
        application: What stands behind it.
        host: The address listened on.
        token: What to ask for off loopback; None: nothing.
    """

    def __init__(self, application: Application, host: str, token: str | None) -> None:
        self._application = application
        self._check_host = is_loopback(host)
        self._token = None if self._check_host else token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI request."""
        headers = {name.lower(): value for name, value in scope["headers"]}
        if self._check_host and not _names_loopback(headers.get(b"host", b"")):
            await _refuse(send, HTTPStatus.MISDIRECTED_REQUEST, _ASK_LOOPBACK)
        elif not (scope["path"] in _OPEN_PATHS or shows_token(headers, self._token)):
            await _refuse(send, HTTPStatus.UNAUTHORIZED, SHOW_TOKEN)
        else:
            await self._application(scope, receive, send)


def shows_token(headers: Mapping[bytes, bytes], token: str | None) -> bool:
    """Whether somebody may pass; None: anybody."""
    if token is None:
        return True
    shown = headers.get(b"authorization", b"")
    return hmac.compare_digest(shown, b"Bearer " + token.encode())


def _names_loopback(header: bytes) -> bool:
    host = header.decode("latin-1").strip().lower()
    bracketed = host.startswith("[")
    return is_loopback(host[1:].partition("]")[0] if bracketed else host.partition(":")[0])


async def _refuse(send: Send, status: HTTPStatus, detail: str) -> None:
    headers = [(b"content-type", MEDIA_TYPE.encode())]
    if status is HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": problem_body(status, detail)})
