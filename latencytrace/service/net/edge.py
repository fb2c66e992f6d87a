"""The checks before both listeners: credentials, where a request comes from, and its pace."""

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import lru_cache
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from latencytrace.service.net.problems import MEDIA_TYPE, problem_body

GRACE_S: Final = 30.0  # for any body
BYTES_PER_S: Final = 64 * 1024  # beyond it: a body of 64 MiB has 17 minutes more

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_TOO_SLOW = (
    f"the body came too slowly: it may take {GRACE_S:.0f} s, and a second more for each "
    f"{BYTES_PER_S // 1024} KiB. Send smaller batches"
)


def at_a_pace(receive: Receive) -> Receive:
    """Receive one request's body, or give it up.

    The receiver raises `HTTPException` (408), which ends the connection, too.
    """
    now_s = asyncio.get_running_loop().time
    began_s = now_s()
    received = 0
    is_whole = False

    async def receive_in_time() -> MutableMapping[str, Any]:
        nonlocal received, is_whole
        if is_whole:  # what comes now is that the sender left
            return await receive()
        left_s = began_s + GRACE_S + received / BYTES_PER_S - now_s()
        try:
            async with asyncio.timeout(left_s):
                message = await receive()
        except TimeoutError:
            closing = {"connection": "close"}
            raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, _TOO_SLOW, closing) from None
        received += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        return message

    return receive_in_time


Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Mapping[bytes, bytes]

_OPEN_PATHS = frozenset({"/healthz", "/readyz"})  # probes carry no token
_OPEN_FOLDER = "/static/"  # what the login page looks like is no secret
LOGIN_PATH = "/login"
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = frozenset({b"same-origin", b"none"})  # none: typed by the user
_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z.-]+))(?::([0-9]{0,5}))?", re.IGNORECASE)
_MAX_PORT = 65535
_JSON = b"application/json"

_ASK_LOOPBACK = (
    "the Host header names another machine, and this service listens on loopback only: ask for "
    "127.0.0.1 or localhost, or let it listen on an address that others can reach"
)
_ONE_HOST = "a request has one Host header"
_FROM_ELSEWHERE = (
    "a page of another site (see Origin and Sec-Fetch-Site) may not write here; where a proxy "
    "stands before this service, tell its address by LATENCYTRACE_PUBLIC_URL"
)
_ENDING = "the service is shutting down: send again once it runs"
_NO_JSON = (
    "a body here is JSON: send Content-Type application/json; spans are taken at another address, "
    "by default http://127.0.0.1:4318"
)
SHOW_TOKEN = "send `Authorization: Bearer TOKEN` with the service's LATENCYTRACE_TOKEN"  # noqa: S105 - no token


def is_loopback(host: str) -> bool:
    """Return whether an address can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Login(Protocol):
    """Asks people for the token where programs are refused."""

    def admits(self, scope: Scope, headers: Headers) -> bool:
        """Tell whether a request shows that the token was shown before."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request to log in, or one without a login."""
        ...


class Edge:
    """Refuses requests that do not name this service, or show no token where one is asked.

    A page elsewhere can make a browser post to loopback under a name of its own (DNS
    rebinding); the Host header gives it away. It can also post to loopback by its right name;
    the Origin header gives that away.

    Args:
        host: The address listened on.
        token: What to ask for off loopback; None: nothing.
        public_url: Where a browser finds the service if not where it listens.
        wants_json: Bodies are JSON; else the application looks at their type itself.
        login: Asks people for the token; None: all are refused alike.
    """

    def __init__(
        self,
        application: Application,
        host: str,
        token: str | None,
        *,
        public_url: str | None = None,
        wants_json: bool = False,
        login: Login | None = None,
    ) -> None:
        self._application = application
        self._check_host = is_loopback(host)
        self._token = None if self._check_host else token
        self._public_origin = _origin(public_url) if public_url is not None else None
        self._wants_json = wants_json
        self._login = login if self._token is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI request."""
        headers = {name.lower(): value for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if self._login is not None and self._is_for_login(scope, headers, refusal):
            await self._login(scope, at_a_pace(receive), send)
            return
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        if scope["method"] == "HEAD":  # an answer to which the server sends no body
            scope = {**scope, "method": "GET"}
        is_answered = False

        async def send_on(message: MutableMapping[str, Any]) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            await self._application(scope, at_a_pace(receive), send_on)
        except asyncio.CancelledError:  # at the end, when there is no more time for an answer
            if is_answered:
                raise
            await _refuse(send, HTTPStatus.SERVICE_UNAVAILABLE, _ENDING)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[HTTPStatus, str] | None:
        """Return why a request is not let in."""
        if sum(name.lower() == b"host" for name, _ in scope["headers"]) > 1:
            return HTTPStatus.BAD_REQUEST, _ONE_HOST
        if self._check_host and not names_loopback(headers.get(b"host", b"")):
            return HTTPStatus.MISDIRECTED_REQUEST, _ASK_LOOPBACK
        if not (self._is_open(scope["path"]) or self._admits(scope, headers)):
            return HTTPStatus.UNAUTHORIZED, SHOW_TOKEN
        return None if scope["method"] in _READING else self._write_refusal(headers)

    def _is_open(self, path: str) -> bool:
        """Tell whether an address needs no token."""
        if path in _OPEN_PATHS:
            return True
        return self._login is not None and (path == LOGIN_PATH or path.startswith(_OPEN_FOLDER))

    def _admits(self, scope: Scope, headers: Headers) -> bool:
        return shows_token(headers, self._token) or (
            self._login is not None and self._login.admits(scope, headers)
        )

    def _is_for_login(
        self, scope: Scope, headers: Headers, refusal: tuple[HTTPStatus, str] | None
    ) -> bool:
        """Tell whether a request is a login, or for a page without one."""
        status = refusal[0] if refusal is not None else None
        if scope["path"] == LOGIN_PATH:  # its form is no JSON
            return status in {None, HTTPStatus.UNSUPPORTED_MEDIA_TYPE}
        is_page = b"text/html" in headers.get(b"accept", b"")
        is_looking = is_page and scope["method"] in _READING
        return is_looking and status is HTTPStatus.UNAUTHORIZED

    def _write_refusal(self, headers: Headers) -> tuple[HTTPStatus, str] | None:
        """Return why a request that may change something is not let in."""
        if not self._is_from_here(headers):
            return HTTPStatus.FORBIDDEN, _FROM_ELSEWHERE
        if self._wants_json and _has_body(headers) and not _is_json(headers):
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, _NO_JSON
        return None

    def _is_from_here(self, headers: Headers) -> bool:
        """Tell whether no browser sends this, or one that shows a page of ours."""
        site = headers.get(b"sec-fetch-site")
        if site is not None:
            return site in _OWN_SITES
        origin = headers.get(b"origin")
        if origin is None:
            return True
        sent = _origin(origin.decode("latin-1"))
        host = headers.get(b"host", b"").decode("latin-1").lower()
        ours = {f"http://{host}", f"https://{host}", self._public_origin}
        return sent is not None and sent in ours


def shows_token(headers: Headers, token: str | None) -> bool:
    """Return whether a request may pass; None: any."""
    if token is None:
        return True
    scheme, _, shown = headers.get(b"authorization", b"").strip().partition(b" ")
    is_right = hmac.compare_digest(shown.strip(), token.strip().encode())
    return is_right and scheme.lower() == b"bearer"


@lru_cache(maxsize=64)  # senders say the same with each post
def names_loopback(header: bytes) -> bool:
    """Tell whether a Host header is a name of this machine for itself, and perhaps a port."""
    found = _HOST.fullmatch(header.decode("latin-1"))
    if found is None:
        return False
    bracketed, plain, port = found.groups()
    if port and int(port) > _MAX_PORT:
        return False
    host = (bracketed or plain).lower()
    is_version_6 = ":" in host
    return is_version_6 == bool(bracketed) and is_loopback(host)


def _origin(url: str) -> str | None:
    """Scheme, host and port of an address; None: it has no host, as `null` has none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return f"{parts.scheme}://{parts.netloc}".lower() if parts.netloc else None


def _has_body(headers: Headers) -> bool:
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


def _is_json(headers: Headers) -> bool:
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == _JSON


async def _refuse(send: Send, status: HTTPStatus, detail: str) -> None:
    headers = [(b"content-type", MEDIA_TYPE.encode())]
    if status is HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": problem_body(status, detail)})
