"""Sends requests when they are due, however slow the answers are (an open loop).

A closed loop waits for answers, so that a slow server is asked less: its slowest
moments are the least measured. Source: Schroeder et al., "Open Versus Closed",
NSDI 2006; Tene, "How NOT to Measure Latency" (coordinated omission).

aiohttp, since it costs a third of httpx's CPU a chunk and sees each chunk in half the
time after it was sent. A thread wakes the event loop when a request is due, since the
loop's own timers are whole milliseconds.
"""

import asyncio
import gc
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

import aiohttp

from latencytrace.cli.load_test.exchange import Exchange, error_kind
from latencytrace.cli.load_test.outcome import NEVER_SENT, TIMEOUT, Outcome
from latencytrace.cli.load_test.plan import NS_PER_S, Step
from latencytrace.cli.load_test.record import LoadRecord, StepRecord
from latencytrace.cli.load_test.spans import Receiver, SpanSender
from latencytrace.cli.load_test.target import Target

PROGRESS_S = 0.25
KEEP_ALIVE_S = 4.0  # below uvicorn's 5 s: a connection that both ends close is an error
TRACE_ID_BITS, SPAN_ID_BITS = 128, 64


def generate(
    target: Target,
    steps: Sequence[Step],
    receiver: Receiver | None,
    record: LoadRecord,
    on_progress: Callable[[StepRecord], None],
) -> None:
    """Run every step to its end, one after the other, and note what happened in `record`.

    Without a receiver, requests carry no trace context. `on_progress` is called with
    how a step goes, four times a second.

    Raises:
        KeyboardInterrupt: The user stopped it; `record` holds what was done by then.
    """
    with _frozen_heap():
        asyncio.run(_generate(target, steps, receiver, record, on_progress))


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Keep the garbage collector's long passes out of the times."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def _generate(
    target: Target,
    steps: Sequence[Step],
    receiver: Receiver | None,
    record: LoadRecord,
    on_progress: Callable[[StepRecord], None],
) -> None:
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
    async with (
        aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        ) as client,
        _span_sender(receiver, target) as sender,
    ):
        record.spans = sender.counts if sender else None
        for step in steps:
            step_record = StepRecord(step=step, began_ns=time.monotonic_ns())
            record.steps.append(step_record)
            await _Run(target, client, sender, step_record).run(on_progress)


@asynccontextmanager
async def _span_sender(
    receiver: Receiver | None, target: Target
) -> AsyncIterator[SpanSender | None]:
    if receiver is None:
        yield None
        return
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as client:
        sender = SpanSender(receiver, client, target.method, target.url)
        sending = asyncio.create_task(sender.run())
        try:
            yield sender
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            await sender.close()


class _Run:
    """One step: every request of it in a task of its own."""

    def __init__(
        self,
        target: Target,
        client: aiohttp.ClientSession,
        sender: SpanSender | None,
        record: StepRecord,
    ) -> None:
        self._target = target
        self._client = client
        self._sender = sender
        self._record = record
        self._slots = asyncio.Semaphore(target.max_in_flight)
        self._ids = random.SystemRandom()  # never the seed's: two runs must not share trace ids
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_started = asyncio.Event()
        self._failure: BaseException | None = None

    async def run(self, on_progress: Callable[[StepRecord], None]) -> None:
        record, step = self._record, self._record.step
        due_ns = (*step.warm_up_due_ns, *step.due_ns)
        stop = threading.Event()
        waker = threading.Thread(
            target=self._wake, args=(due_ns, asyncio.get_running_loop(), stop), daemon=True
        )
        cpu_ns = time.process_time_ns()
        waker.start()
        try:
            while not self._all_started.is_set() or self._tasks:
                record.elapsed_ns = time.monotonic_ns() - record.began_ns
                on_progress(record)
                await self._a_while()
        finally:
            stop.set()
            waker.join()
            for task in self._tasks:
                task.cancel()
            record.elapsed_ns = time.monotonic_ns() - record.began_ns
            record.cpu_ns = time.process_time_ns() - cpu_ns
        on_progress(record)

    async def _a_while(self) -> None:
        """Wait for news, but not for long."""
        if self._all_started.is_set():
            await asyncio.wait(self._tasks, timeout=PROGRESS_S)
        else:
            await asyncio.sleep(min(PROGRESS_S, self._remaining_s()))
        if self._failure is not None:
            raise self._failure

    def _remaining_s(self) -> float:
        record = self._record
        gone_ns = time.monotonic_ns() - record.began_ns
        return max(0.01, (record.step.length_ns - gone_ns) / NS_PER_S)

    def _wake(
        self, due_ns: Sequence[int], loop: asyncio.AbstractEventLoop, stop: threading.Event
    ) -> None:
        """In a thread of its own: have the event loop start each request when it is due."""
        began_ns = self._record.began_ns
        for index, at_ns in enumerate(due_ns):
            wait_ns = began_ns + at_ns - time.monotonic_ns()
            if wait_ns > 0 and stop.wait(wait_ns / NS_PER_S):
                return
            loop.call_soon_threadsafe(self._start, index, began_ns + at_ns)
        loop.call_soon_threadsafe(self._all_started.set)

    def _start(self, index: int, due_ns: int) -> None:
        task = asyncio.get_running_loop().create_task(self._request(index, due_ns))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()

    async def _request(self, index: int, due_ns: int) -> None:
        bodies, paths = self._target.bodies, self._target.paths
        exchange = Exchange(
            target=self._target,
            url=self._target.url + paths[index % len(paths)],
            body=bodies[index % len(bodies)] if bodies else None,
            trace_id=f"{self._ids.getrandbits(TRACE_ID_BITS):032x}" if self._sender else None,
            span_id=f"{self._ids.getrandbits(SPAN_ID_BITS):016x}" if self._sender else None,
        )
        held_back = self._slots.locked()
        error = await self._error_of(exchange, due_ns)
        outcome = Outcome(
            trace_id=exchange.trace_id,
            span_id=exchange.span_id,
            warm_up=index < len(self._record.step.warm_up_due_ns),
            held_back=held_back,
            due_ns=due_ns,
            sent_ns=exchange.sent_ns,
            first_byte_ns=exchange.first_byte_ns,
            end_ns=exchange.end_ns or time.monotonic_ns(),
            status=exchange.status,
            error=error,
            answer=exchange.answer,
        )
        self._record.outcomes.append(outcome)
        self._record.failed += error is not None
        if self._sender is not None:
            self._sender.add(outcome)

    async def _error_of(self, exchange: Exchange, due_ns: int) -> str | None:
        """Exchange, unless its time is up before; what went wrong, if anything did."""
        record = self._record
        try:
            async with asyncio.timeout_at(due_ns / NS_PER_S + self._target.timeout_s), self._slots:
                record.in_flight += 1
                record.in_flight_max = max(record.in_flight_max, record.in_flight)
                try:
                    await exchange.run(self._client)
                finally:
                    record.in_flight -= 1
        except TimeoutError:
            return TIMEOUT if exchange.sent_ns is not None else NEVER_SENT
        except (aiohttp.ClientError, OSError) as error:
            return error_kind(error)
        return exchange.error
