"""What tracing adds to a lock that is free, in instructions, which no neighbour changes.

    python -m tests.benchmarks.bench_locks [--json]      # needs valgrind; a minute or two

A request takes and releases each kind of lock, or puts into and gets from each kind of queue, ten
thousand times without having to wait: untraced and traced, in one process under valgrind's
callgrind (user space, all threads).
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

import latencytrace

TIMES = 10_000
WARM_UP = 100
TRACERS = ("untraced", "latencytrace")
HOOKS = ["anyio", "asyncio_waits", "multiprocessing_waits", "threading_waits"]
NEVER_MS = 3_600_000
# Each call of this one in C ends a count; nothing here calls it.
ENDS_A_COUNT, DUMPED_BEFORE = os.getloadavg, "os_getloadavg*"
COUNT = "count"


async def hold(lock: Any, times: int) -> None:
    """Take and release a lock of an event loop's."""
    for _ in range(times):
        async with lock:
            pass


async def pass_on(items: Any, times: int) -> None:
    """Put and get."""
    for _ in range(times):
        await items.put(1)
        await items.get()


async def hold_plainly(lock: Any, times: int) -> None:
    """Take and release a lock of threads."""
    for _ in range(times):
        with lock:
            pass


async def pass_on_plainly(items: Any, times: int) -> None:
    """Put and get between threads."""
    for _ in range(times):
        items.put(1)
        items.get()


KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any, int], Coroutine[Any, Any, None]]]] = {
    "asyncio.Lock": (asyncio.Lock, hold),
    "asyncio.Semaphore": (asyncio.Semaphore, hold),
    "asyncio.Queue, put and get": (asyncio.Queue, pass_on),
    "anyio.Lock": (anyio.Lock, hold),
    "anyio.Semaphore": (lambda: anyio.Semaphore(1), hold),
    "threading.Lock": (threading.Lock, hold_plainly),
    "threading.Semaphore": (threading.Semaphore, hold_plainly),
    "threading.RLock": (threading.RLock, hold_plainly),
    "queue.Queue, put and get": (queue.Queue, pass_on_plainly),
    "queue.SimpleQueue, put and get": (queue.SimpleQueue, pass_on_plainly),
    "multiprocessing.Lock": (multiprocessing.Lock, hold_plainly),
    "multiprocessing.SimpleQueue, put and get": (multiprocessing.SimpleQueue, pass_on_plainly),
}


async def count() -> None:
    """Be counted with each tracer."""
    for tracer in TRACERS:
        if tracer != "untraced":
            latencytrace.instrument("bench", hooks=HOOKS)
        around = nullcontext() if tracer == "untraced" else latencytrace.request("bench")
        with around:
            for make, use in KINDS.values():
                lock = make()
                for times in (WARM_UP, TIMES):
                    await use(lock, times)
                    ENDS_A_COUNT()


def counted() -> dict[str, dict[str, float]]:
    """Return the instructions of a lock by kind and tracer.

    Raises:
        FileNotFoundError: There is no valgrind.
    """
    environ = {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "OTEL_BSP_SCHEDULE_DELAY": str(NEVER_MS),
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "LATENCYTRACE_GPU": "0",
    }
    with TemporaryDirectory() as folder:
        file = Path(folder) / "counted"
        command = (
            "valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={file}",
            f"--dump-before={DUMPED_BEFORE}", sys.executable, "-m", __spec__.name, COUNT,
        )  # fmt: skip
        subprocess.run(command, env=environ, check=True, stderr=subprocess.DEVNULL)
        dumps = sorted(Path(folder).glob("counted.*"), key=lambda each: int(each.suffix[1:]))
        totals = [re.findall(r"^totals: (\d+)", each.read_text(), re.MULTILINE) for each in dumps]
    measured = iter(totals[1 : 2 * len(TRACERS) * len(KINDS) : 2])
    by_tracer = {
        tracer: {kind: int(next(measured)[0]) / TIMES for kind in KINDS} for tracer in TRACERS
    }
    return {kind: {tracer: by_tracer[tracer][kind] for tracer in TRACERS} for kind in KINDS}


def main() -> None:
    """Count, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    found = counted()
    if as_json:
        print(json.dumps(found))
        return
    print("| instructions a time | untraced | latencytrace |")
    print("| --- | ---: | ---: |")
    for kind, by_tracer in found.items():
        untraced, traced = (by_tracer[tracer] for tracer in TRACERS)
        print(f"| {kind} | {untraced:,.0f} | {traced - untraced:+,.0f} |")


if __name__ == "__main__":
    if sys.argv[1:] == [COUNT]:
        asyncio.run(count())
        sys.stdout.flush()
        os._exit(0)  # what the end of a process takes is none of it
    main()
