"""Who may speak to the service."""

import asyncio
from collections.abc import MutableMapping

import pytest

from latencytrace.service.net.edge import Edge, Receive, Scope, Send, is_loopback

TOKEN = "correct horse"


async def inside(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers everybody."""
    await send({"type": "http.response.start", "status": 200, "headers": []})


def answered(
    headers: list[tuple[str, str]],
    *,
    listened_on: str = "127.0.0.1",
    token: str | None = None,
    path: str = "/",
    method: str = "GET",
    public_url: str | None = None,
    wants_json: bool = False,
) -> int:
    """The status of the answer to a request."""
    sent: list[MutableMapping[str, object]] = []

    async def receive() -> MutableMapping[str, object]:
        raise AssertionError

    async def send(part: MutableMapping[str, object]) -> None:
        sent.append(part)

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    scope = {"type": "http", "path": path, "headers": raw, "method": method}
    edge = Edge(inside, listened_on, token, public_url=public_url, wants_json=wants_json)
    asyncio.run(edge(scope, receive, send))
    found = sent[0]["status"]
    assert isinstance(found, int)
    return found


def status(
    listened_on: str, host: str, token: str | None = None, shown: str = "", path: str = "/"
) -> int:
    """The status of the answer to a question."""
    headers = [("host", host), ("authorization", shown)]
    return answered(headers, listened_on=listened_on, token=token, path=path)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8321",
        "localhost",
        "LOCALHOST:80",
        "[::1]:8321",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "127.0.0.2",
        "localhost:65535",
        "localhost:",
    ],
)
def test_loopback_is_answered_by_its_own_names(host: str) -> None:
    assert status("127.0.0.1", host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "",
        "rebound.example",
        "127.0.0.1.rebound.example",
        "10.0.0.1",
        "[::2]",
        "[::1].rebound.example",
        "[::1]x",
        "[::1",
        "::1",
        "[127.0.0.1]",
        "[localhost]",
        "[::1%lo]",
        "localhost:80@rebound.example",
        "rebound.example@localhost",
        "localhost:80:80",
        "localhost:80 ",
        "localhost:+80",
        "localhost:65536",
        "localhost:99999999",
        "localhost:8\xb3",
        "localhost.",
        "127.0.0.1.",
        "localhost/",
        "localhost,rebound.example",
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "0.0.0.0",  # noqa: S104 - nothing listens
        "127.0.0.1\n",
    ],
)
def test_loopback_is_not_answered_by_other_names(host: str) -> None:
    assert status("127.0.0.1", host) == 421


def test_off_loopback_any_name_will_do() -> None:
    assert status("0.0.0.0", "traces.example") == 200  # noqa: S104 - nothing listens


@pytest.mark.parametrize(
    ("shown", "answered"),
    [
        ("", 401),
        ("Bearer wrong", 401),
        (TOKEN, 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        (f"BEARER  {TOKEN} ", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer{TOKEN}", 401),
        (f"Basic {TOKEN}", 401),
        ("Bearer", 401),
        ("Bearer ", 401),
        (" ", 401),
        (f"Bearer Bearer {TOKEN}", 401),
        (f"Bearer {TOKEN}\xff", 401),
    ],
)
def test_off_loopback_a_token_must_be_shown(shown: str, answered: int) -> None:
    assert status("10.0.0.1", "traces.example", TOKEN, shown) == answered


def test_on_loopback_no_token_is_asked_for() -> None:
    assert status("127.0.0.1", "127.0.0.1", TOKEN) == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_no_token(path: str) -> None:
    assert status("10.0.0.1", "traces.example", TOKEN, path=path) == 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],  # noqa: S104 - nothing listens
)
def test_loopback_is_told_by_the_address(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize("listened_on", ["127.0.0.1", "10.0.0.1"])
def test_two_hosts_are_one_too_many(listened_on: str) -> None:
    two = [("host", "127.0.0.1"), ("Host", "127.0.0.1")]

    assert answered(two, listened_on=listened_on) == 400


def test_loopback_wants_a_host() -> None:
    assert answered([]) == 421


OURS = ("host", "127.0.0.1:8321")


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH", "TRACE"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 200),
        ([("sec-fetch-site", "same-origin")], 200),
        ([("sec-fetch-site", "none")], 200),
        ([("sec-fetch-site", "cross-site")], 403),
        ([("sec-fetch-site", "same-site")], 403),
        ([("sec-fetch-site", "anything else")], 403),
        ([("origin", "http://127.0.0.1:8321")], 200),
        ([("origin", "https://127.0.0.1:8321")], 200),
        ([("origin", "https://Traces.Example")], 200),
        ([("origin", "http://127.0.0.1:3000")], 403),
        ([("origin", "http://127.0.0.1")], 403),
        ([("origin", "http://evil.example")], 403),
        ([("origin", "http://127.0.0.1:8321.evil.example")], 403),
        ([("origin", "http://traces.example")], 403),
        ([("origin", "null")], 403),
        ([("origin", "")], 403),
        ([("origin", "http://[")], 403),
        ([("origin", "127.0.0.1:8321")], 403),
        ([("origin", "https://traces.example"), ("sec-fetch-site", "same-site")], 403),
        ([("origin", "https://proxied.example"), ("sec-fetch-site", "same-origin")], 200),
    ],
)
def test_a_page_of_another_site_may_not_write(
    method: str, headers: list[tuple[str, str]], status: int
) -> None:
    public = "https://traces.example/latencytrace"

    assert answered([OURS, *headers], method=method, public_url=public) == status
    assert answered([OURS, *headers], method="GET", public_url=public) == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8321", 200),
        ("https://traces.example", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("file://", 403),
        ("", 403),
        ("http://[", 403),
    ],
)
def test_without_a_public_address_only_our_own_pages_write(
    method: str, origin: str, status: int
) -> None:
    assert answered([OURS, ("origin", origin)], method=method) == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("content-type", "application/json"), ("content-length", "2")], 200),
        ([("content-type", "Application/JSON; charset=utf-8"), ("content-length", "2")], 200),
        ([("content-length", "2")], 415),
        ([("transfer-encoding", "chunked")], 415),
        ([("content-type", "text/plain"), ("content-length", "2")], 415),
        ([("content-type", "application/x-www-form-urlencoded"), ("content-length", "2")], 415),
        ([("content-length", "0")], 200),
        ([], 200),
    ],
)
def test_the_api_is_told_things_in_json_alone(headers: list[tuple[str, str]], status: int) -> None:
    assert answered([OURS, *headers], method="POST", wants_json=True) == status
