"""The intake of both receivers: bound what was sent, check it, have it kept."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple, TypeVar

from latencytrace.errors import OverloadedError
from latencytrace.service.ingest.workers import Workers
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.traces import CheckedRequest

MAX_BYTES_READ: Final = 4 * otlp.MAX_BYTES  # of all bodies that are being read and checked
LONG_BODY_BYTES: Final = 64 * 1024  # decompressed; more would hold up the event loop for long
RETRY_AFTER_S: Final = 1
WAIT_S: Final = 3.0  # for room, before a sender is put off
WAITING: Final = 1000  # posts, beyond which none waits
WAITING_BYTES: Final = 32 * 1024 * 1024  # of their bodies
LOOK_S: Final = 0.02  # between two looks whether there is room

T = TypeVar("T")
Submit = Callable[[CheckedRequest], Future[None]]


class Share:
    """The memory that one body has taken of what all may take together."""

    def __init__(self, intake: "Intake") -> None:
        self._intake = intake
        self.bytes = 0

    def take(self, size: int) -> None:
        """Note that this much more was read.

        Raises:
            OverloadedError: Too much is being read.
        """
        self._intake.bytes += size
        self.bytes += size
        if self._intake.bytes > self._intake.max_bytes:
            raise OverloadedError("too many bodies are being read: send again in a second")


class _Short(NamedTuple):
    """A body that others may be taken with."""

    plain: bytes
    content_type: str | None
    taken: asyncio.Future[CheckedRequest]


class Intake:
    """The way of a body into the store, one for all receivers.

    Args:
        submit: Keeps the spans of a checked request.
        require_room: Raises `OverloadedError` while no more spans are let in.
        max_bytes: How much all bodies that are being read may have together.
        capture_content: Keep prompts, texts and the like.
    """

    def __init__(
        self,
        submit: Submit,
        telemetry: Telemetry,
        *,
        require_room: Callable[[], None] = lambda: None,
        max_bytes: int = MAX_BYTES_READ,
        capture_content: bool = False,
    ) -> None:
        self._submit = submit
        self._telemetry = telemetry
        self._require_room = require_room
        self.max_bytes = max_bytes
        self._check = partial(otlp.check, capture_content=capture_content)
        self._check_together = partial(otlp.check_together, capture_content=capture_content)
        self._short: list[_Short] = []  # bodies that came since the event loop's last round
        self._short_bytes = 0
        self.bytes = 0  # being read, checked and kept now
        self._workers = Workers()
        self._queue = asyncio.Lock()  # for room: first come, first served
        self._waiting = 0  # for room
        self._waiting_bytes = 0

    @contextmanager
    def share(self) -> Iterator[Share]:
        """One body's share, given back at the end."""
        share = Share(self)
        try:
            yield share
        finally:
            self.bytes -= share.bytes

    async def take(
        self, body: bytes, content_type: str | None, content_encoding: str | None
    ) -> CheckedRequest:
        """Check a body, and wait until its spans are safe from the death of this process.

        A long one is checked off the event loop; short ones that came at once are checked and
        kept together, for each by itself would cost as much as hundreds of spans.

        Returns:
            What was checked, of others that came with it, too.

        Raises:
            OtlpError: Nothing of it can be kept, or the store's engine cannot read it.
            OverloadedError: Too many long ones are being checked, or too much waits already.
            StoreError: The store fails, or is closed.
        """
        await self._room(len(body))  # first, for checking is much of the work
        plain = otlp.decompressed_if_short(body, content_encoding, LONG_BODY_BYTES)
        if plain is None:
            checked = await self.beside(self._check, body, content_type, content_encoding)
            kept = self._kept(checked)
            if not kept.done():
                await asyncio.wrap_future(kept)
            kept.result()
            return checked
        self._short_bytes += len(plain)
        if self._short_bytes > LONG_BODY_BYTES:
            self._take_short()
            self._short_bytes = len(plain)
        loop = asyncio.get_running_loop()
        if not self._short:
            loop.call_soon(self._take_short)
        one = _Short(plain, content_type, loop.create_future())
        self._short.append(one)
        return await one.taken

    def _take_short(self) -> None:
        """Take the short bodies that are there together, or each by itself where one is odd."""
        short, self._short, self._short_bytes = self._short, [], 0
        bodies = [(one.plain, one.content_type) for one in short]
        together = self._check_together(bodies) if len(short) > 1 else None
        if together is not None:
            self._keep_short(short, lambda: together)
            return
        for one in short:
            self._keep_short([one], partial(self._check, one.plain, one.content_type, None))

    def _keep_short(self, short: Sequence["_Short"], check: Callable[[], CheckedRequest]) -> None:
        """Have bodies kept that are checked as one, and answer all that wait, even if one left."""

        def tell(kept: Future[None] | asyncio.Future[None]) -> None:
            error = kept.exception()
            for one in short:
                if one.taken.done():
                    continue
                if error is None:
                    one.taken.set_result(checked)
                else:
                    one.taken.set_exception(error)

        try:
            checked = check()
            kept = self._kept(checked)
        except Exception as error:  # noqa: BLE001 - the waiting posts raise it
            kept = Future()
            kept.set_exception(error)
        if kept.done():
            tell(kept)
        else:
            asyncio.wrap_future(kept).add_done_callback(tell)

    async def _room(self, size: int) -> None:
        """Wait a while until more is let in: many senders lose what is refused.

        Args:
            size: Bytes of the body that waits.

        Raises:
            OverloadedError: Too much waits still, or too many.
        """
        if not self._queue.locked() and self._has_room():
            return
        if self._waiting >= WAITING or (
            self._waiting and self._waiting_bytes + size > WAITING_BYTES
        ):
            self._require_room()
        self._waiting += 1
        self._waiting_bytes += size
        try:
            async with asyncio.timeout(WAIT_S), self._queue:
                while not self._has_room():
                    await self._workers.wait(LOOK_S)
        except TimeoutError:
            self._require_room()
        finally:
            self._waiting -= 1
            self._waiting_bytes -= size

    def _has_room(self) -> bool:
        try:
            self._require_room()
        except OverloadedError:
            return False
        return not self._workers.are_busy

    async def beside(self, work: Callable[..., T], *arguments: object) -> T:
        """Do what takes a while off the event loop, which it would block.

        Raises:
            OverloadedError: Too much of that is being done.
        """
        return await self._workers.run(work, *arguments)

    def _kept(self, checked: CheckedRequest) -> Future[None]:
        """Have spans kept; the journal has them at once, so that nothing is waited for."""
        kept = self._submit(checked)
        self._telemetry.spans_rejected.inc(checked.rejected_spans)
        self._telemetry.mended(checked.mending.values, checked.mended_services)
        return kept

    def refused(self, status: HTTPStatus) -> None:
        """Count a body that was not kept, by the status that HTTP has for the reason."""
        self._telemetry.posts_refused.labels(str(int(status))).inc()
