"""The login page: how often one may try, and how long a cookie holds."""

import asyncio

import httpx
import pytest

from latencytrace.service.net.edge import Edge, Receive, Scope, Send
from latencytrace.service.web.login import LASTS_S, LoginPage
from latencytrace.service.web.pages.assets import Assets
from latencytrace.service.web.pages.rendering import Renderer
from tests.support.fakes.contracts import FakeClock

TOKEN = "correct horse"


async def inside(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers everybody."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


class Visitor:
    """Somebody with a browser, before a service that asks for a token."""

    def __init__(self, public_url: str | None = None) -> None:
        self.clock = FakeClock(1_763_690_000 * 10**9)
        login = LoginPage(Renderer(Assets()), TOKEN, self.clock, public_url=public_url)
        self._edge = Edge(inside, "10.0.0.1", TOKEN, login=login, wants_json=True)
        self.cookies = httpx.Cookies()

    def ask(
        self, method: str, path: str, *, site: str = "same-origin", **more: str
    ) -> httpx.Response:
        """Send a request, with the cookies so far."""

        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self._edge)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://traces:8321", cookies=self.cookies
            ) as client:
                answer = await client.request(
                    method,
                    path,
                    headers={"accept": "text/html", "sec-fetch-site": site},
                    data=more or None,
                )
                self.cookies = client.cookies
                return answer

        return asyncio.run(asked())

    def log_in(self, token: str) -> int:
        """Try a token."""
        return self.ask("POST", "/login", token=token, next="/health").status_code


@pytest.fixture
def visitor() -> Visitor:
    return Visitor()


def test_many_wrong_tokens_in_a_minute_are_turned_away(visitor: Visitor) -> None:
    wrong = [visitor.log_in("guess") for _ in range(6)]
    visitor.clock.move_s(61)

    assert wrong == [401] * 5 + [429]
    assert visitor.log_in("guess") == 401


def test_wrong_tokens_of_others_do_not_keep_out_the_right_one(visitor: Visitor) -> None:
    for _ in range(6):
        visitor.log_in("guess")

    assert visitor.log_in(TOKEN) == 303


def test_a_cookie_holds_for_a_week(visitor: Visitor) -> None:
    visitor.log_in(TOKEN)
    at_once = visitor.ask("GET", "/").status_code
    visitor.clock.move_s(LASTS_S + 1)

    assert (at_once, visitor.ask("GET", "/").status_code) == (200, 401)


@pytest.mark.parametrize("changed", ["9999999999.0", "9999999999", ".", "x.y", "9" * 5000, ""])
def test_a_forged_cookie_admits_nobody(visitor: Visitor, changed: str) -> None:
    visitor.cookies.set("latencytrace_8321", changed)

    assert visitor.ask("GET", "/").status_code == 401


def test_a_form_that_is_too_long_is_refused(visitor: Visitor) -> None:
    assert visitor.log_in("x" * 20_000) == 413


@pytest.mark.parametrize(
    ("public_url", "marked"), [(None, False), ("https://traces.example", True)]
)
def test_behind_https_the_cookie_is_for_https_only(public_url: str | None, marked: bool) -> None:
    answer = Visitor(public_url).ask("POST", "/login", token=TOKEN)

    assert ("secure" in answer.headers["set-cookie"].lower()) is marked


def test_a_link_from_elsewhere_is_never_sent_on_to_another_site(visitor: Visitor) -> None:
    answer = visitor.ask("GET", "http://traces:8321//evil.example/x", site="cross-site")

    assert answer.request.url.host == "traces"
    assert 'http-equiv="refresh"' in answer.text
    assert "evil" not in answer.text


def test_a_form_of_too_many_fields_is_answered_with_the_form(visitor: Visitor) -> None:
    answer = visitor.ask("POST", "/login", token=TOKEN, a="1", b="2", c="3", d="4")

    assert answer.status_code == 400
    assert 'name="token"' in answer.text
