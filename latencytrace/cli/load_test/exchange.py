"""One request and its answer over HTTP, timed on the way."""

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from latencytrace.cli.load_test.answer import Answer, reader
from latencytrace.cli.load_test.target import Target

_ERROR_KINDS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((aiohttp.ClientConnectorDNSError,), "host not found"),
    ((aiohttp.ClientSSLError, ssl.SSLError), "tls"),
    ((aiohttp.ClientConnectorError,), "cannot connect"),
    ((aiohttp.ClientPayloadError,), "answer cut off"),
    ((TimeoutError,), "timeout"),
    ((aiohttp.ServerDisconnectedError, ConnectionError), "connection closed"),
    ((aiohttp.ClientResponseError,), "not HTTP"),
)


def error_kind(error: Exception) -> str:
    """Name what went wrong in few words: the first row that fits."""
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(
        error.os_error, ConnectionRefusedError
    ):
        return "connection refused"
    return next(
        (kind for types, kind in _ERROR_KINDS if isinstance(error, types)), type(error).__name__
    )


FIRST_SUCCESS, FIRST_REDIRECT = 200, 300


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request and its answer, as far as it came; times by a monotonic clock."""

    target: Target
    url: str
    body: bytes | None
    trace_id: str | None
    span_id: str | None
    now_ns: Callable[[], int] = time.monotonic_ns
    sent_ns: int | None = None
    first_byte_ns: int | None = None
    end_ns: int | None = None
    status: int | None = None
    answer: Answer | None = None
    error: str | None = None

    async def run(self, client: aiohttp.ClientSession) -> None:
        """Send and read to the last byte, noting each time on the way."""
        headers = dict(self.target.headers)
        if self.trace_id is not None:
            headers["traceparent"] = f"00-{self.trace_id}-{self.span_id}-01"
        self.sent_ns = self.now_ns()
        async with client.request(
            self.target.method,
            self.url,
            data=self.body,
            headers=headers,
            allow_redirects=False,
        ) as response:
            self.first_byte_ns = self.now_ns()
            self.status = response.status
            await self._read(response)
        if self.error is None and not FIRST_SUCCESS <= response.status < FIRST_REDIRECT:
            self.error = f"http {response.status}"

    async def _read(self, response: aiohttp.ClientResponse) -> None:
        body = reader(
            response.headers.get("content-type", ""),
            length_known="content-length" in response.headers,
        )
        last_ns = self.first_byte_ns or self.now_ns()
        try:
            async for received, chunk_ended in response.content.iter_chunks():
                last_ns = self.now_ns()
                body.feed(received, last_ns, chunk_ended=chunk_ended)
            self.end_ns = self.now_ns()
        finally:
            self.answer = body.answer(last_ns)
        self.error = self.answer.error
