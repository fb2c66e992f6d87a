"""Who may speak to the service."""

import asyncio
from collections.abc import MutableMapping

import pytest

from latencytrace.service.edge import Edge, Receive, Scope, Send, is_loopback

TOKEN = "correct horse"  # noqa: S105 - a test's


async def inside(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - as ASGI asks
    """An application that answers everybody."""
    await send({"type": "http.response.start", "status": 200, "headers": []})


def status(
    listened_on: str, host: str, token: str | None = None, shown: str = "", path: str = "/"
) -> int:
    """What a request is answered."""
    sent: list[MutableMapping[str, object]] = []

    async def receive() -> MutableMapping[str, object]:
        raise AssertionError

    async def send(part: MutableMapping[str, object]) -> None:
        sent.append(part)

    headers = [(b"host", host.encode()), (b"authorization", shown.encode())]
    scope = {"type": "http", "path": path, "headers": headers}
    asyncio.run(Edge(inside, listened_on, token)(scope, receive, send))
    answered = sent[0]["status"]
    assert isinstance(answered, int)
    return answered


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8321", "localhost", "LOCALHOST:80", "[::1]:8321", "127.0.0.2"]
)
def test_loopback_is_answered_by_its_own_names(host: str) -> None:
    assert status("127.0.0.1", host) == 200


@pytest.mark.parametrize(
    "host", ["", "rebound.example", "127.0.0.1.rebound.example", "10.0.0.1", "[::2]"]
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
def test_loopback_is_told_by_the_address(host: str, expected: bool) -> None:  # noqa: FBT001 - a parameter
    assert is_loopback(host) is expected
