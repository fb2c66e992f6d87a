"""Posts that wait for a thread at one time are checked as one: what a check costs whatever it has.

A message of protobuf that follows another one in the same bytes is merged with it, so that many
requests, each whole, are one request of all their spans.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from latencytrace.errors import OtlpError
from latencytrace.service.ingest.workers import THREADS, Workers
from latencytrace.service.otlp.traces import CheckedRequest, decompressed, is_identity

TOGETHER_BYTES: Final = 2 * 1024 * 1024  # of several, not compressed; some 8 000 spans
GZIP_RATIO: Final = 8  # by which bodies that are compressed are taken to grow
MOST_WAITING: Final = 64  # posts, beyond which none is let in
MOST_BYTES: Final = 8 * 1024 * 1024  # of these, on the wire, likewise

_RESOURCE_SPANS: Final = 0x0A  # tag of the only field of a request
_MORE: Final = 0x80  # another byte of a number follows
_MOST_SHIFT: Final = 28  # of a length that a body may have
_MOST_FIELDS: Final = 64  # of a body that is looked through


@dataclass(slots=True, eq=False)
class Post:
    """What was checked, of one sender or of several; kept once, for all of them."""

    request: CheckedRequest
    kept: Future[None] | None = None  # None: nobody has asked for it yet


class _Waiting(NamedTuple):
    """A body, and who waits for what becomes of it."""

    body: bytes
    encoding: str | None
    answer: "asyncio.Future[Post]"

    @property
    def weight(self) -> int:
        """Return about how many bytes it is, not compressed."""
        return len(self.body) * (1 if is_identity(self.encoding) else GZIP_RATIO)


class Gathering:
    """Checks bodies in protobuf beside the event loop; those that wait meanwhile, together.

    Args:
        workers: Where that is done.
        check: Checks a request that is not compressed.
    """

    def __init__(self, workers: Workers, check: Callable[[bytes], CheckedRequest]) -> None:
        self._workers = workers
        self._check = check
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0  # of these
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_full(self) -> bool:
        """Return whether so much waits that no more is to come."""
        return len(self._waiting) >= MOST_WAITING or self._bytes >= MOST_BYTES

    async def check(self, body: bytes, encoding: str | None) -> Post:
        """Check a body.

        Args:
            body: As it came over the wire.
            encoding: The Content-Encoding; gzip, identity or None.

        Raises:
            OtlpError: Nothing of it can be kept.
            OverloadedError: Too much is being done beside the event loop.
        """
        answer: asyncio.Future[Post] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(body, encoding, answer))
        self._bytes += len(body)
        self._go_on()
        return await answer

    def _go_on(self) -> None:
        """Have what waits checked, as far as there are threads."""
        while self._waiting and len(self._tasks) < THREADS:
            if taken := self._taken():
                self._tasks.add(asyncio.get_running_loop().create_task(self._answer(taken)))

    def _taken(self) -> list[_Waiting]:
        """Take the first that wait, and no more than make a large request."""
        taken: list[_Waiting] = []
        weight = 0
        while self._waiting and (not taken or weight + self._waiting[0].weight <= TOGETHER_BYTES):
            taken.append(self._waiting.popleft())
            weight += taken[-1].weight
        self._bytes -= sum(len(one.body) for one in taken)
        return [one for one in taken if not one.answer.done()]  # whose sender is still there

    async def _answer(self, waiting: Sequence[_Waiting]) -> None:
        try:
            bodies = [(one.body, one.encoding) for one in waiting]
            found = await self._workers.run(checked_together, bodies, self._check)
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            found = [error] * len(waiting)
        finally:
            self._tasks.discard(asyncio.current_task())
            self._go_on()
        for one, post in zip(waiting, found, strict=True):
            if one.answer.done():
                continue
            if isinstance(post, Post):
                one.answer.set_result(post)
            else:
                one.answer.set_exception(post)


def checked_together(
    bodies: Sequence[tuple[bytes, str | None]], check: Callable[[bytes], CheckedRequest]
) -> list[Post | Exception]:
    """Check bodies as one request where that is the same, else each by itself.

    Args:
        bodies: As they came over the wire, and how each is compressed.
        check: Checks a request that is not compressed.

    Returns:
        For each body its post, or what is wrong with it. Several may have the same post.
    """
    found: dict[int, Post | Exception] = {}
    plain: dict[int, bytes] = {}
    for number, (body, encoding) in enumerate(bodies):
        try:
            plain[number] = decompressed(body, encoding)
        except OtlpError as error:
            found[number] = error
    for together in _in_groups(plain):
        found |= _checked({number: plain[number] for number in together}, check)
    return [found[number] for number in range(len(bodies))]


def _in_groups(plain: dict[int, bytes]) -> list[list[int]]:
    """Divide requests into groups of neighbours that are not too large together.

    One that is not whole has a group to itself.
    """
    groups: list[list[int]] = []
    room = 0
    for number, body in plain.items():
        is_alone = not is_whole(body)
        if not groups or is_alone or len(body) > room:
            groups.append([])
            room = TOGETHER_BYTES
        groups[-1].append(number)
        room = 0 if is_alone else max(room - len(body), 0)
    return groups


def _checked(
    plain: dict[int, bytes], check: Callable[[bytes], CheckedRequest]
) -> dict[int, Post | Exception]:
    """Check requests as one; each by itself where one of them is odd."""
    if len(plain) > 1:
        with suppress(Exception):  # whose it is, and what it says, tells a check of each
            request = check(b"".join(plain.values()))
            if not request.rejected_spans:
                return dict.fromkeys(plain, Post(request))
    found: dict[int, Post | Exception] = {}
    for number, body in plain.items():
        try:
            found[number] = Post(check(body))
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for it
            found[number] = error
    return found


def is_whole(body: bytes) -> bool:
    """Tell whether a request ends where its last field does, and has none but its own.

    Only then do bytes that follow say the same as they would by themselves. Of one with very
    many fields it is not told.
    """
    at = fields = 0
    while at < len(body):
        fields += 1
        if body[at] != _RESOURCE_SPANS or fields > _MOST_FIELDS:
            return False
        size, at = _length(body, at + 1)
        at += size
    return at == len(body)


def _length(body: bytes, at: int) -> tuple[int, int]:
    """Read a length; return it, and where it ends. Beyond the body where it is none."""
    size = shift = 0
    while at < len(body) and shift <= _MOST_SHIFT:
        size |= (body[at] & ~_MORE) << shift
        if body[at] < _MORE:
            return size, at + 1
        at, shift = at + 1, shift + 7
    return 1, len(body)
