"""Connections of a listener over HTTP: how many, and how long one may keep us waiting.

uvicorn bounds none of that but the time between two requests: headers that never end, an answer
that are not read and connections that say nothing would each be kept for ever.
"""

import asyncio
import logging
import os
import resource
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from latencytrace.service.net.problems import MEDIA_TYPE, problem_body

HEADERS_S: Final = 10.0  # from the opening, or the first byte, to the end of the headers
MAX_HEADER_BYTES: Final = 64 * 1024
READER_S: Final = 30.0  # in which a reader must take some of an answer that waits for it

_log = logging.getLogger(__name__)

Closed = Callable[[str], None]  # takes the reason


class Connections:
    """The connections of one listener.

    Beyond `most`, the one that has waited longest for a request's headers makes room, else the
    the one with the longest-running body: a request that is sent at once is served, however
    many others send none or half of one.

    Args:
        most: At once.
        closed: Called with each that was closed before its time, by reason.
    """

    def __init__(self, most: int, closed: Closed) -> None:
        self.most = most
        self._closed = closed
        self._open: set[BoundedProtocol] = set()
        self._waiting: dict[BoundedProtocol, None] = {}  # for headers; the longest first
        self._sending: dict[BoundedProtocol, None] = {}  # by the start of its body
        self._is_crowded = False

    def protocol(self, **settings: Any) -> asyncio.Protocol:
        """One more, made as uvicorn makes them."""
        return BoundedProtocol(self, **settings)

    def opened(self, one: "BoundedProtocol") -> None:
        """Take one in, and have another make room where there are too many."""
        self._open.add(one)
        if len(self._open) <= self.most:
            self._is_crowded = False
            return
        if not self._is_crowded:
            self._is_crowded = True
            _log.warning("more than %d connections: those without a request make room", self.most)
        others = (other for other in (*self._waiting, *self._sending) if other is not one)
        oldest = next(others, one)
        oldest.give_up(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections")

    def waits(self, one: "BoundedProtocol") -> None:
        """Note that one waits for headers."""
        self._sending.pop(one, None)
        self._waiting[one] = None

    def sends(self, one: "BoundedProtocol") -> None:
        """Note that one has more of a body to send."""
        self._waiting.pop(one, None)
        self._sending[one] = None

    def goes_on(self, one: "BoundedProtocol") -> None:
        """Note that the next step is ours."""
        self._waiting.pop(one, None)
        self._sending.pop(one, None)

    def lost(self, one: "BoundedProtocol") -> None:
        """Forget one."""
        self._open.discard(one)
        self.goes_on(one)

    def given_up(self, one: "BoundedProtocol", reason: str) -> None:
        """Count one that is closed before its time, and forget it."""
        self.lost(one)
        self._closed(reason)


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's, with limits.

    Args:
        connections: The open connections of the same listener.
    """

    def __init__(self, connections: Connections, **settings: Any) -> None:
        super().__init__(**settings)
        self._all = connections
        self._headers_due: asyncio.TimerHandle | None = None
        self._reader_due: asyncio.TimerHandle | None = None
        self._reads_headers = True
        self._header_bytes = 0
        self._goes_on_with_headers = True  # all that came last belongs to headers not ended yet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._wait_for_headers()
        self._all.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._go_on()
        self.resume_writing()
        self._all.lost(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._goes_on_with_headers = self._reads_headers
        super().data_received(data)
        self._header_bytes = self._header_bytes + len(data) if self._goes_on_with_headers else 0
        if self._header_bytes > MAX_HEADER_BYTES:
            self.give_up(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "long headers")
        elif self._is_answering():
            self._go_on()
            if not self._reads_headers:
                self._all.sends(self)
        elif self._headers_due is None:
            self._wait_for_headers()

    def on_headers_complete(self) -> None:
        """Begin a request; a target in absolute form says the host that counts."""
        self._reads_headers = self._goes_on_with_headers = False
        scheme, is_absolute, rest = self.url.partition(b"://")
        if is_absolute and scheme.isalpha():
            host = rest.partition(b"/")[0].partition(b"?")[0]
            # In place: the scope has this very list already.
            self.headers[:] = [pair for pair in self.headers if pair[0] != b"host"]
            self.headers.append((b"host", host))
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._reads_headers = True
        self._goes_on_with_headers = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """End an answer; the connection is closed soon if nothing more comes."""
        super().on_response_complete()
        if not self._is_answering() and not self.transport.is_closing():
            self._all.waits(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reader_due is None:
            self._reader_due = self.loop.call_later(READER_S, self._give_up_reader)

    def resume_writing(self) -> None:
        if self._reader_due is not None:
            self._reader_due.cancel()
            self._reader_due = None
        super().resume_writing()

    def give_up(self, status: HTTPStatus, reason: str) -> None:
        """Say why, if nothing else is being said, and close."""
        self._go_on()
        self._all.given_up(self, reason)
        if self.transport.is_closing():
            return
        is_idle = self._latest() is not None and not self._header_bytes
        if not (is_idle or self._is_answering()):
            self.transport.write(_answer(status, reason))
        self.transport.close()

    def _latest(self) -> RequestResponseCycle | None:
        """The latest request and its answer, if there was one."""
        return cast(RequestResponseCycle | None, self.cycle)

    def _is_answering(self) -> bool:
        latest = self._latest()
        return latest is not None and not latest.response_complete

    def _wait_for_headers(self) -> None:
        self._headers_due = self.loop.call_later(HEADERS_S, self._headers_are_late)
        self._all.waits(self)

    def _headers_are_late(self) -> None:
        if self._latest() is None or self._header_bytes:
            self.give_up(HTTPStatus.REQUEST_TIMEOUT, "slow headers")
        else:  # answered before its body had come, and silent since
            self._headers_due = None
            self.transport.close()

    def _go_on(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None
        self._all.goes_on(self)

    def _give_up_reader(self) -> None:
        self._reader_due = None
        self._all.given_up(self, "slow reader")
        self.transport.abort()


def _answer(status: HTTPStatus, reason: str) -> bytes:
    body = problem_body(status, f"{reason}: this connection is closed")
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


MOST_CONNECTIONS: Final = 2048  # of one listener
_FEWEST_CONNECTIONS: Final = 16
_LISTENERS: Final = 3  # two over HTTP, and gRPC, which does not let us bound its connections
_KEPT: Final = 192  # for the store's files and everything else
_WANTED: Final = 16_384
_TIGHT: Final = 16  # with so few left, anything may fail


def raise_limit() -> int:
    """Allow this process as many open files as it may have, within reason.

    Returns:
        The limit from now on.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return limit()


def limit() -> int:
    """Return how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _WANTED if soft == resource.RLIM_INFINITY else soft


def most_connections(files: int) -> int:
    """Return how many connections one listener may have, where so many files may be open."""
    affordable = (files - _KEPT) // _LISTENERS
    return max(_FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, affordable))


def shortage() -> str | None:
    """Say that there are no more files to open, or hardly any; None: there are."""
    allowed = limit()
    try:
        lowest_free = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return f"no more files or connections can be opened ({error.strerror}): {_ADVICE}"
    os.close(lowest_free)
    if lowest_free < allowed - _TIGHT:
        return None
    return f"of {allowed} files and connections that may be open nearly all are: {_ADVICE}"


_ADVICE = "find out which client connects so often, or raise the limit (`ulimit -n`, LimitNOFILE)"
