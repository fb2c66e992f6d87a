"""What watching the process itself costs: callbacks of asyncio's loop, and collections.

    python tests/benchmarks/bench_runtime.py [--rounds 15]

CPU time of the thread, rounds interleaved, the median and the middle half.

* `callback`: one callback of asyncio's own loop, which does nothing, with the hook less
  without it; while no traced request is under way, and while one is.
* `collection`: one of the youngest generation, while a request is under way less while none is.
"""

import argparse
import asyncio
import gc
import statistics
import time
from asyncio.events import Handle
from collections.abc import Callable

from latencytrace.agent.guard import raise_fault
from latencytrace.agent.hooks.event_loop import time_callback
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import OpenRequests

CALLBACKS = 50_000
COLLECTIONS = 5_000


def recorder() -> Recorder:
    """One that sends nothing."""
    return Recorder(RecordingProvider().get_tracer("bench"), raise_fault)


def cpu_ns(call: Callable[[], object]) -> int:
    """Of this thread."""
    started_ns = time.thread_time_ns()
    call()
    return time.thread_time_ns() - started_ns


def callback_ns() -> float:
    """Of one callback."""
    left = CALLBACKS
    loop = asyncio.new_event_loop()

    def again() -> None:
        nonlocal left
        left -= 1
        if left:
            loop.call_soon(again)
        else:
            loop.stop()

    loop.call_soon(again)
    taken_ns = cpu_ns(loop.run_forever)
    loop.close()
    return taken_ns / CALLBACKS


def hooked_callback_ns(requests: Recorder) -> float:
    """The same with the hook."""
    original = Handle._run
    Handle._run = time_callback(requests, original)  # type: ignore[method-assign]
    try:
        return callback_ns()
    finally:
        Handle._run = original  # type: ignore[method-assign]


def collection_ns() -> float:
    """Of one collection of hardly anything."""
    gc.disable()
    try:
        return cpu_ns(lambda: [gc.collect(0) for _ in range(COLLECTIONS)]) / COLLECTIONS
    finally:
        gc.enable()


def watched_collection_ns(requests: OpenRequests) -> float:
    """The same while a request is under way."""
    request = requests.begin(on_loop=True)
    try:
        return collection_ns()
    finally:
        requests.end(request)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    idle, busy = recorder(), recorder()
    taken: dict[str, list[float]] = {
        "an empty callback": [],
        "callback, no request": [],
        "callback, a request": [],
        "an empty collection": [],
        "collection, a request": [],
    }
    for _ in range(rounds):
        bare = callback_ns()
        taken["an empty callback"].append(bare)
        taken["callback, no request"].append(hooked_callback_ns(idle) - bare)
        request = busy.open_requests.begin(on_loop=True)
        taken["callback, a request"].append(hooked_callback_ns(busy) - bare)
        busy.open_requests.end(request)
        bare = collection_ns()
        taken["an empty collection"].append(bare)
        taken["collection, a request"].append(watched_collection_ns(idle.open_requests) - bare)
    for name, ns in taken.items():
        low, mid, high = statistics.quantiles(ns, n=4)
        print(f"{name:<24}{mid / 1000:>8.3f} µs ({low / 1000:.3f} to {high / 1000:.3f})")


if __name__ == "__main__":
    main()
