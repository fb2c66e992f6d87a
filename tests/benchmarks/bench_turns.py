"""Waits for an event loop that short steps of other requests hold, beside known truth.

    python -m tests.benchmarks.bench_turns [--clients N ...]

Requests of a simulated application run on one event loop, asyncio's or uvloop's. Each asks a
database by a thread twenty times, for a millisecond each time, and computes for a part of a
millisecond in between. The application notes when each answer was there and when its request went
on: so long it waited for the loop. A line is one loop and so many requests at once: their mean
duration, how much of it they waited, how much of that is said, and the part of a request's time
that is in a wrong stage.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic_ns

import uvloop
from opentelemetry.trace import SpanKind

from latencytrace.agent.hooks.event_loop import EventLoopHook
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.runtime_gaps import LOOP, TURN
from latencytrace.model import Stage, semconv
from latencytrace.model.packed import unpack_named
from tests.support.agent.hooked import Spans, hooked, intervals_of
from tests.support.agent.waiting_requests import serve

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.SelectorEventLoop,
    "uvloop": uvloop.Loop,
}
ASKS = 20
ASK_S = 1e-3
STEP_NS = 300_000
GRAIN_NS = 1_000
REQUESTS = 80


class Application:
    """The requests, and what is true of them."""

    def __init__(self, spans: Spans, threads: ThreadPoolExecutor) -> None:
        self._spans = spans
        self._threads = threads
        self._waited_ns: list[int] = []
        self.served: list[tuple[int, RecordedSpan, list[RecordedSpan]]] = []

    async def client(self, count: int) -> None:
        """Send requests one after another."""
        for _ in range(count):
            await self.request()

    async def request(self) -> None:
        """Serve one."""
        waited_ns: list[int] = []
        calls: list[RecordedSpan] = []

        async def endpoint() -> None:
            for _ in range(ASKS):
                since_ns = monotonic_ns()
                while monotonic_ns() - since_ns < STEP_NS:
                    pass
                calls.append(await self._ask(waited_ns))

        before = len(self._spans.all)
        await serve(self._spans, endpoint)
        served = (one for one in self._spans.all[before:] if one.kind is SpanKind.SERVER)
        request = next(one for one in served if one.span_id == calls[0].parent_id)
        self.served.append((sum(waited_ns), request, calls))

    async def _ask(self, waited_ns: list[int]) -> RecordedSpan:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[int] = loop.create_future()

        def execute() -> None:
            time.sleep(ASK_S)
            loop.call_soon_threadsafe(answer.set_result, monotonic_ns())

        call = self._spans.recorder.start("ask", Stage.DATABASE)
        call.activate()
        self._threads.submit(execute)
        ready_ns = await answer
        waited_ns.append(monotonic_ns() - ready_ns)
        call.deactivate()
        call.end()
        assert type(call.span) is RecordedSpan
        return call.span


def said_ns(request: RecordedSpan, calls: list[RecordedSpan]) -> int:
    """How long it waited for the loop, as its spans say: gaps fill what is outside of calls."""
    packed = str(request.attributes.get(semconv.RUNTIME_GAPS, ""))
    waits = {
        at_ns
        for name, start_ns, end_ns in unpack_named(packed, request.started_ns)
        if name in {TURN, LOOP}
        for at_ns in range(start_ns // GRAIN_NS, end_ns // GRAIN_NS)
    }
    for call in calls:
        waits.difference_update(range(call.started_ns // GRAIN_NS, call.ended_ns // GRAIN_NS + 1))
    turns = [
        one.end_ns - one.start_ns
        for call in calls
        for one in intervals_of(call)
        if one.stage is Stage.QUEUE
    ]
    return sum(turns) + len(waits) * GRAIN_NS


def lines(clients: list[int]) -> Iterator[str]:
    """Measure."""
    for name, new_loop in LOOPS.items():
        for many in clients:
            with hooked(EventLoopHook) as spans, ThreadPoolExecutor(many) as threads:
                application = Application(spans, threads)

                async def main(many: int = many, application: Application = application) -> None:
                    await asyncio.gather(
                        *(application.client(REQUESTS // many) for _ in range(many))
                    )

                with asyncio.Runner(loop_factory=new_loop) as runner:
                    runner.run(main())
            served = application.served
            whole = [request.ended_ns - request.started_ns for _, request, _ in served]
            true = [waited_ns for waited_ns, _, _ in served]
            said = [said_ns(request, calls) for _, request, calls in served]
            wrong = sorted(abs(a - b) / c for a, b, c in zip(true, said, whole, strict=True))
            yield (
                f"{name:8} {many:3} at once: {statistics.mean(whole) / 1e6:7.1f} ms, waited "
                f"{sum(true) / sum(whole):5.1%}, said {sum(said) / sum(whole):5.1%}; wrong p50 "
                f"{wrong[len(wrong) // 2]:5.1%}, p95 {wrong[len(wrong) * 95 // 100]:5.1%}"
            )


def main() -> None:
    """Print a line a loop and number of requests at once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 8])
    with suppress(BrokenPipeError):
        for line in lines(parser.parse_args().clients):
            print(line, flush=True)


if __name__ == "__main__":
    main()
