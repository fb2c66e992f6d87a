"""One method in each of the four forms of a function, and what a call of any gives."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from inspect import isasyncgen, iscoroutine
from typing import Any, Final


def sync(self: object, text: str) -> tuple[str, str]:
    """Return the name of the class, and the text."""
    return type(self).__name__, text


async def coroutine(self: object, text: str) -> tuple[str, str]:
    """Return them to who awaits it."""
    return type(self).__name__, text


def generator(self: object, text: str) -> Iterator[str]:
    """Yield them."""
    yield type(self).__name__
    yield text


async def async_generator(self: object, text: str) -> AsyncIterator[str]:
    """Yield them likewise."""
    yield type(self).__name__
    yield text


FORMS: Final[dict[str, Callable[..., Any]]] = {
    "sync": sync,
    "async": coroutine,
    "generator": generator,
    "async generator": async_generator,
}


def outcome(called: Any) -> tuple[str, ...]:
    """Return what a call gave, to its end."""
    if iscoroutine(called):
        return tuple(asyncio.run(called))
    if isasyncgen(called):
        return asyncio.run(_all_of(called))
    return tuple(called)


async def _all_of(stream: Any) -> tuple[str, ...]:
    return tuple([each async for each in stream])
