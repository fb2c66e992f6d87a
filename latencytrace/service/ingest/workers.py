"""A few threads for what would hold up the event loop."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Final, TypeVar, cast

from latencytrace.errors import OverloadedError

THREADS: Final = 2
MOST_WAITING: Final = 8

T = TypeVar("T")


class Workers:
    """Threads that the end does not wait for, and that take only so much work at once.

    `asyncio.to_thread` would do neither: its threads hold up the end of the process, and
    whatever it is given waits for one of them.

    Args:
        threads: Started with the first piece of work.
        most_waiting: Pieces of work that may wait.
    """

    def __init__(self, threads: int = THREADS, most_waiting: int = MOST_WAITING) -> None:
        self._count = threads
        self._most = threads + most_waiting
        self._queue: SimpleQueue[tuple[Future[object], Callable[[], object]]] = SimpleQueue()
        self._lock = threading.Lock()
        self._under_way = 0
        self._freed = asyncio.Event()  # a piece of work was done
        self._started = False

    @property
    def are_busy(self) -> bool:
        """Return whether each thread has something to do, and something more waits."""
        return self._under_way > self._count

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Do a piece of work in one of the threads.

        Raises:
            OverloadedError: Too much waits already.
        """
        with self._lock:
            if self._under_way >= self._most:
                raise OverloadedError("too many long bodies are being checked: send again")
            self._under_way += 1
            if not self._started:
                self._started = True
                for number in range(self._count):
                    name = f"latencytrace-worker-{number}"
                    threading.Thread(target=self._serve, name=name, daemon=True).start()
        future: Future[object] = Future()
        future.add_done_callback(self._done)
        self._queue.put((future, partial(work, *arguments)))
        try:
            return cast(T, await asyncio.wrap_future(future))
        finally:
            self._freed.set()

    async def wait(self, most_s: float) -> None:
        """Wait until a piece of work is done, and no longer than this."""
        self._freed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self._freed.wait()

    def _done(self, _: Future[object]) -> None:
        with self._lock:
            self._under_way -= 1

    def _serve(self) -> None:
        while True:
            _answer(*self._queue.get())


def _answer(future: Future[object], work: Callable[[], object]) -> None:
    if not future.set_running_or_notify_cancel():
        return  # its caller is gone
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - handed to the waiting caller
        future.set_exception(error)
    else:
        future.set_result(result)
