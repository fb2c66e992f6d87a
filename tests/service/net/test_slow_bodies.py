"""A body must come at a pace."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from latencytrace.service.net import slow_bodies
from latencytrace.service.net.slow_bodies import at_a_pace


class Sender:
    """Sends parts of a body, each after so long."""

    def __init__(self, *parts: tuple[float, int], ends: bool = True) -> None:
        self._parts = list(parts)
        self._ends = ends

    @property
    def is_sent(self) -> bool:
        """Whether all parts are gone."""
        return not self._parts

    async def __call__(self) -> MutableMapping[str, Any]:
        """Send the next part."""
        if not self._parts:
            await asyncio.sleep(60)
        wait_s, size = self._parts.pop(0)
        await asyncio.sleep(wait_s)
        more = bool(self._parts) or not self._ends
        return {"type": "http.request", "body": bytes(size), "more_body": more}


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_bodies, "GRACE_S", 0.2)


async def read(sender: Sender) -> int:
    receive = at_a_pace(sender)
    size = 0
    while True:
        message = await receive()
        size += len(message["body"])
        if not message["more_body"]:
            return size


def test_a_body_that_comes_at_once_is_read() -> None:
    assert asyncio.run(read(Sender((0, 1000), (0, 500)))) == 1500


@pytest.mark.parametrize(
    "sender",
    [
        pytest.param(Sender((0, 3), ends=False), id="half a body"),
        pytest.param(Sender(*[(0.03, 1)] * 60), id="a byte at a time"),
        pytest.param(Sender((60, 1)), id="none of it"),
    ],
)
def test_a_body_that_drips_is_given_up(sender: Sender) -> None:
    with pytest.raises(HTTPException, match="too slowly") as given_up:
        asyncio.run(read(sender))

    assert given_up.value.status_code == 408
    assert given_up.value.headers == {"connection": "close"}


def test_a_large_body_has_time_in_proportion() -> None:
    parts = [(0.05, slow_bodies.BYTES_PER_S // 10)] * 10  # 0.5 s, at twice the pace asked for

    assert asyncio.run(read(Sender(*parts))) == slow_bodies.BYTES_PER_S // 10 * 10


def test_what_comes_after_the_body_may_take_as_long_as_it_likes() -> None:
    body = Sender((0, 1))
    left = {"type": "http.disconnect"}

    async def receive() -> MutableMapping[str, Any]:
        if body.is_sent:
            await asyncio.sleep(0.4)
            return left
        return await body()

    async def listen() -> MutableMapping[str, Any]:
        paced = at_a_pace(receive)
        await paced()
        return await paced()

    assert asyncio.run(listen()) == left
