"""Bodies must come at a pace: one that drips holds a share of what all may send at once."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException

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
