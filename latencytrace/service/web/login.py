"""The login page: a token is exchanged for a cookie that scripts cannot read."""

import hmac
from collections import deque
from collections.abc import Callable, Mapping
from hashlib import sha256
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, urlencode

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from latencytrace.service.net.edge import LOGIN_PATH, Headers, Receive, Scope, Send
from latencytrace.service.web.pages.rendering import Address, Renderer
from latencytrace.service.web.queries import CAME

LASTS_S: Final = 7 * 24 * 3600
MOST_TRIES: Final = 5  # wrong ones in a minute
MINUTE_NS: Final = 60 * 10**9
LONGEST_FORM: Final = 16_384  # bytes


class LoginPage:
    """Asks people for the token, and knows them by their cookie from then on.

    A browser sends no strict cookie where a link of another site is followed, as one in a chat:
    such a request is answered by a page that leads to itself, once.

    Args:
        now_ns: The time of day.
        public_url: Where a browser finds the service; https: the cookie is for https only.
    """

    def __init__(
        self,
        renderer: Renderer,
        token: str,
        now_ns: Callable[[], int],
        *,
        public_url: str | None = None,
    ) -> None:
        self._renderer = renderer
        self._token = token.strip().encode()
        self._now_ns = now_ns
        self._secure = (public_url or "").startswith("https:")
        self._wrong_ns: deque[int] = deque(maxlen=MOST_TRIES)

    def admits(self, scope: Scope, headers: Headers) -> bool:
        """Tell whether a request shows a cookie of ours that still holds."""
        prefix = f"{_cookie_name(scope)}="
        for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
            name_and_value = part.strip()
            if name_and_value.startswith(prefix):
                ends, _, _ = name_and_value.removeprefix(prefix).partition(".")
                shown = name_and_value.removeprefix(prefix).encode()
                return (
                    ends.isascii()
                    and ends.isdigit()
                    and len(ends) <= len(str(2**63))
                    and hmac.compare_digest(shown, self._session(int(ends)).encode())
                    and int(ends) > self._now_ns() // 10**9
                )
        return False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI request without a login."""
        request = Request(scope, receive)
        if scope["path"] != LOGIN_PATH:
            response = self._unknown(request)
        elif scope["method"] == "POST":
            response = await self._posted(request)
        else:
            response = self._form(_within(request.query_params.get("next", "/")))
        await response(scope, receive, send)

    def _unknown(self, request: Request) -> Response:
        wanted = f"{request.url.path}?{request.url.query}".removesuffix("?")
        from_elsewhere = request.headers.get("sec-fetch-site") == "cross-site"
        if from_elsewhere and CAME not in request.query_params:
            query = urlencode([*request.query_params.multi_items(), (CAME, "1")])
            return self._page(again=_within(f"{request.url.path}?{query}"))
        return self._form(_within(wanted), HTTPStatus.UNAUTHORIZED)

    async def _posted(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LONGEST_FORM:
                return self._form(
                    "/", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem="That is no token."
                )
        try:
            fields = parse_qs(body.decode("latin-1"), max_num_fields=4)
        except ValueError:  # too many fields
            return self._form("/", HTTPStatus.BAD_REQUEST, problem="That is no form of ours.")
        wanted = _within(fields.get("next", ["/"])[0])
        now_ns = self._now_ns()
        shown = fields.get("token", [""])[0].strip().encode("latin-1", "replace")
        if not hmac.compare_digest(shown, self._token):
            recent = [at_ns for at_ns in self._wrong_ns if now_ns - at_ns < MINUTE_NS]
            if len(recent) >= MOST_TRIES:
                problem = "Too many wrong tokens: try again in a minute."
                return self._form(wanted, HTTPStatus.TOO_MANY_REQUESTS, problem=problem)
            self._wrong_ns.append(now_ns)
            problem = "This is not the token of the service: see its LATENCYTRACE_TOKEN."
            return self._form(wanted, HTTPStatus.UNAUTHORIZED, problem=problem)
        response = RedirectResponse(wanted, HTTPStatus.SEE_OTHER)
        response.set_cookie(
            _cookie_name(request.scope),
            self._session(now_ns // 10**9 + LASTS_S),
            max_age=LASTS_S,
            httponly=True,
            samesite="strict",
            secure=self._secure,
        )
        return response

    def _session(self, ends_s: int) -> str:
        signed = hmac.new(self._token, f"latencytrace pages until {ends_s}".encode(), sha256)
        return f"{ends_s}.{signed.hexdigest()}"

    def _form(
        self, wanted: str, status: HTTPStatus = HTTPStatus.OK, problem: str | None = None
    ) -> Response:
        return self._page(status, wanted=wanted, problem=problem)

    def _page(
        self,
        status: HTTPStatus = HTTPStatus.OK,
        *,
        wanted: str = "/",
        problem: str | None = None,
        again: str | None = None,
    ) -> Response:
        headers: Mapping[str, str] = {}
        if status is HTTPStatus.UNAUTHORIZED:
            headers = {"www-authenticate": "Bearer"}
        context = {
            "next": Address(wanted),
            "problem": problem,
            "again": Address(again) if again else None,
        }
        return self._renderer.page("login.html", context, status, headers)


def _within(address: str) -> str:
    """An address of these pages; one that leads elsewhere becomes the first page."""
    is_ours = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if is_ours and address.isprintable() and "\\" not in address else "/"


def _cookie_name(scope: Scope) -> str:
    """A name of each port's own: cookies are shared by all ports of a host."""
    server = scope.get("server")
    return f"latencytrace_{server[1] if server else 0}"
