"""A body must come at a pace."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from latencytrace.service.net.edge import BYTES_PER_S, GRACE_S, at_a_pace
from tests.support.fakes.event_loop import hurried


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


async def read(sender: Sender) -> int:
    receive = at_a_pace(sender)
    size = 0
    while True:
        message = await receive()
        size += len(message["body"])
        if not message["more_body"]:
            return size


def test_a_body_that_comes_at_once_is_read() -> None:
    assert hurried(read(Sender((0, 1000), (0, 500)))) == 1500


@pytest.mark.parametrize(
    "sender",
    [
        pytest.param(Sender((0, 3), ends=False), id="half a body"),
        pytest.param(Sender(*[(3, 1)] * 60), id="a byte at a time"),
        pytest.param(Sender((60, 1)), id="none of it"),
    ],
)
def test_a_body_that_drips_is_given_up(sender: Sender) -> None:
    with pytest.raises(HTTPException, match="too slowly") as given_up:
        hurried(read(sender))

    assert given_up.value.status_code == 408
    assert given_up.value.headers == {"connection": "close"}


def test_a_large_body_has_time_in_proportion() -> None:
    parts = [(5, 10 * BYTES_PER_S)] * 10  # 50 s, at twice the pace asked for

    assert hurried(read(Sender(*parts))) == 100 * BYTES_PER_S


def test_what_comes_after_the_body_may_take_as_long_as_it_likes() -> None:
    body = Sender((0, 1))
    left = {"type": "http.disconnect"}

    async def receive() -> MutableMapping[str, Any]:
        if body.is_sent:
            await asyncio.sleep(2 * GRACE_S)
            return left
        return await body()

    async def listen() -> MutableMapping[str, Any]:
        paced = at_a_pace(receive)
        await paced()
        return await paced()

    assert hurried(listen()) == left
