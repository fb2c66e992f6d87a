"""What stands before both listeners: who may speak to them."""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from ipaddress import ip_address
from typing import Any

from latencytrace.service.problems import problem_body

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_OPEN_PATHS = frozenset({"/healthz", "/readyz"})  # probes carry no token


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
        token: What to ask for; None: nothing.
    """

    def __init__(self, application: Application, host: str, token: str | None) -> None:
        self._application = application
        self._check_host = is_loopback(host)
        self._token = token.encode() if token else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI request."""
        if scope["type"] == "http":
            headers = {name.lower(): value for name, value in scope["headers"]}
            if self._check_host and not _names_loopback(headers.get(b"host", b"")):
                await _refuse(
                    send, 421, "Misdirected Request", "the Host header names another host"
                )
                return
            if self._token is not None and scope["path"] not in _OPEN_PATHS:
                shown = headers.get(b"authorization", b"")
                if not hmac.compare_digest(shown, b"Bearer " + self._token):
                    await _refuse(
                        send,
                        401,
                        "Unauthorized",
                        "send `Authorization: Bearer TOKEN` with the service's LATENCYTRACE_TOKEN",
                    )
                    return
        await self._application(scope, receive, send)


def _names_loopback(header: bytes) -> bool:
    host = header.decode("latin-1").strip().lower()
    bracketed = host.startswith("[")
    return is_loopback(host[1:].partition("]")[0] if bracketed else host.partition(":")[0])


async def _refuse(send: Send, status: int, title: str, detail: str) -> None:
    body = problem_body(status, title, detail)
    headers = [(b"content-type", b"application/problem+json")]
    if status == 401:  # noqa: PLR2004
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
