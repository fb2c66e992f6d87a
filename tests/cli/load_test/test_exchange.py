"""The times of one request and its answer, by a clock that the server moves."""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from latencytrace.cli.load_test.exchange import Exchange
from latencytrace.cli.load_test.target import Target
from tests.support.fakes.contracts import FakeClock

FIRST_NS, GAP_NS, LAST_NS = 100, 20, 7
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: %b\r\n\r\n"
ROLE = b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'
TOKEN = b'data: {"choices": [{"delta": {"content": "word "}}]}\n\n'
USAGE = b'data: {"choices": [], "usage": {"completion_tokens": 9}}\n\n'


class WatchedClock(FakeClock):
    """A clock that tells when it was read."""

    def __init__(self) -> None:
        super().__init__()
        self.was_read = asyncio.Event()

    def __call__(self) -> int:
        """See `FakeClock`."""
        self.was_read.set()
        return super().__call__()


Say = Callable[[int, bytes], Awaitable[None]]  # after so long, and until the client has it


async def openai(say: Say) -> None:
    await say(0, HEAD % b"text/event-stream")
    await say(0, chunk(ROLE))
    await say(FIRST_NS, chunk(TOKEN))
    await say(GAP_NS, chunk(TOKEN))
    await say(3 * GAP_NS, chunk(TOKEN))
    await say(LAST_NS, chunk(USAGE))
    await say(LAST_NS, chunk(b""))


async def plain(say: Say) -> None:
    await say(0, HEAD % b"text/plain")
    await say(FIRST_NS, chunk(b"word "))
    await say(GAP_NS, chunk(b"word "))
    await say(3 * GAP_NS, chunk(b"word "))
    await say(2 * LAST_NS, chunk(b""))


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


async def exchanged(answer: Callable[[Say], Awaitable[None]]) -> Exchange:
    """An exchange with a server that goes on once the client has noted what came."""
    clock = WatchedClock()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def say(after_ns: int, part: bytes) -> None:
            clock.now_ns += after_ns
            clock.was_read.clear()
            writer.write(part)
            await clock.was_read.wait()

        await reader.readuntil(b"\r\n\r\n")
        await answer(say)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    target = Target(
        url=url, method="GET", headers={}, bodies=[], timeout_s=50, max_in_flight=1, paths=[""]
    )
    exchange = Exchange(
        target=target, url=url, body=None, trace_id=None, span_id=None, now_ns=clock
    )
    async with server, aiohttp.ClientSession() as client:
        await exchange.run(client)
    return exchange


@pytest.mark.parametrize("answer", [openai, plain])
def test_each_time_is_when_the_client_had_what_it_is_of(
    answer: Callable[[Say], Awaitable[None]],
) -> None:
    found = asyncio.run(exchanged(answer))

    assert (found.sent_ns, found.first_byte_ns) == (0, 0)
    assert found.answer is not None
    assert list(found.answer.token_times_ns) == [
        FIRST_NS,
        FIRST_NS + GAP_NS,
        FIRST_NS + 4 * GAP_NS,
    ]
    assert found.end_ns == FIRST_NS + 4 * GAP_NS + 2 * LAST_NS
    assert found.error is None
