"""A million requests: memory, threads and descriptors stay flat, and every span is accounted for.

    python -m tests.benchmarks.soak [--requests 1000000] [--seconds 1800] [--json]

A program of its own makes requests of seven spans each (an endpoint, a retrieval with an event, a
batch with its member, a stream left half-way, threads that come and go), against a receiver that
counts every span it gets, and that goes away for a while in the middle. The slope is that of
resident memory over the second half, by least squares, with nothing waiting to be sent. What was
made must be what was received and what was dropped, to the span.
"""

import argparse
import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

from opentelemetry import trace

import latencytrace
from tests.support.agent.receiving import Receiver

SPANS = 7  # of a request
SAMPLES = 60
OUTAGE = (0.3, 0.4)  # of the run, in which nobody answers
FLUSH_S = 60.0
TRANSIENT = 2  # threads or descriptors that a sample may see by chance


@dataclass(frozen=True, slots=True)
class Sample:
    """What the process holds at one time."""

    requests: int
    resident_kib: int
    threads: int
    descriptors: int
    queued: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    requests: int
    seconds: float
    made: int
    received: int
    dropped: int
    unaccounted: int
    slope_bytes_a_request: float
    resident_kib: tuple[int, int]  # at half time, at the end
    threads: tuple[int, int]
    descriptors: tuple[int, int]
    faults: int


class Counting(Receiver):
    """Counts spans and keeps none; refuses while it is told to be away."""

    def __init__(self, count: "Synchronized[int]", away: "Synchronized[int]") -> None:
        super().__init__()
        self.count = count
        self.away = away


def serve(
    count: "Synchronized[int]", away: "Synchronized[int]", port: "Synchronized[int]"
) -> None:
    """The receiver, in a process of its own."""
    with Counting(count, away) as receiver:
        port.value = receiver.server_port

        while True:
            while receiver.posts:  # one by one: others are appended meanwhile
                count.value += sum(
                    len(of_scope.spans)
                    for of_resource in receiver.posts.pop(0).resource_spans
                    for of_scope in of_resource.scope_spans
                )
            receiver.post_headers.clear()
            receiver.reports.clear()
            if away.value:
                receiver.answers.append((503, {"Retry-After": "1"}))
            else:
                receiver.answers.clear()
            time.sleep(0.05)


@latencytrace.stage("decode")
def tokens() -> Iterator[int]:
    """A stream that nobody reads to its end."""
    yield from range(100)


def request(number: int, pool: ThreadPoolExecutor) -> None:
    """One request of seven spans."""
    tracer = trace.get_tracer("soak")
    with tracer.start_as_current_span("endpoint", attributes={"request": number}):
        with latencytrace.stage("retrieve", collection="passages") as _:
            trace.get_current_span().add_event("found", {"passages": number % 8})
        ticket = latencytrace.enqueue(tokens=number % 100)
        next(iter(tokens()))
        pool.submit(in_thread, number).result()
    with latencytrace.batch([ticket], "embed"):
        pass


def in_thread(number: int) -> None:
    """What a request does elsewhere."""
    with latencytrace.stage("rerank", number=number):
        pass


def sample(requests: int) -> Sample:
    """What the process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Sample(
        requests,
        pages * os.sysconf("SC_PAGE_SIZE") // 1024,
        threading.active_count(),
        sum(1 for _ in Path("/proc/self/fd").iterdir()),
        latencytrace.agent_status().spans_queued,
    )


def slope(samples: list[Sample]) -> float:
    """Bytes of resident memory a request, by least squares."""
    n = len(samples)
    mean_x = sum(one.requests for one in samples) / n
    mean_y = sum(one.resident_kib for one in samples) / n
    above = sum((s.requests - mean_x) * (s.resident_kib - mean_y) for s in samples)
    below = sum((s.requests - mean_x) ** 2 for s in samples)
    return 1024 * above / below if below else 0.0


def soak(requests: int, seconds: float) -> Outcome:
    """Make requests until there are so many, or the time is over."""
    spawning = get_context("spawn")
    count, away, port = spawning.Value("q", 0), spawning.Value("i", 0), spawning.Value("i", 0)
    receiving = spawning.Process(target=serve, args=(count, away, port), daemon=True)
    receiving.start()
    while not port.value:
        time.sleep(0.01)
    os.environ["LATENCYTRACE_OVERHEAD"] = "off"  # every span is accounted for
    latencytrace.instrument("soak", endpoint=f"http://127.0.0.1:{port.value}")
    latencytrace.enqueue()  # loads what the first request would have a span of the load of
    samples, done, began = [], 0, time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        while done < requests and time.monotonic() - began < seconds:
            part = max(done / requests, (time.monotonic() - began) / seconds)
            away.value = int(OUTAGE[0] <= part < OUTAGE[1])
            for _ in range(max(requests // SAMPLES, 1)):
                request(done, pool)
                done += 1
            asyncio.run(asyncio.sleep(0))  # a loop that comes and goes
            if not away.value:
                latencytrace.flush(FLUSH_S)  # what waits is no growth
            samples.append(sample(done))
    took_s = time.monotonic() - began
    away.value = 0
    deadline = time.monotonic() + FLUSH_S
    while not latencytrace.flush(5.0) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.2)  # the receiver counts
    status = latencytrace.agent_status()
    received = count.value
    receiving.terminate()
    half, made = samples[len(samples) // 2], status.spans_made
    return Outcome(
        requests=done,
        seconds=round(took_s, 1),
        made=made,
        received=received,
        dropped=status.spans_dropped,
        unaccounted=done * SPANS - received - status.spans_dropped,
        slope_bytes_a_request=round(slope(samples[len(samples) // 2 :]), 2),
        resident_kib=(half.resident_kib, samples[-1].resident_kib),
        threads=(half.threads, samples[-1].threads),
        descriptors=(half.descriptors, samples[-1].descriptors),
        faults=status.faults,
    )


def main() -> int:
    """Print what came of it; 1 where something grew or was lost uncounted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=1_800)
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    outcome = soak(told.requests, told.seconds)
    if told.json:
        sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
    else:
        for name, value in asdict(outcome).items():
            sys.stdout.write(f"{name.replace('_', ' '):24} {value}\n")
    held = (outcome.threads, outcome.descriptors)
    grew = any(end > half + TRANSIENT for half, end in held)
    return int(grew or outcome.unaccounted != 0)


if __name__ == "__main__":
    sys.exit(main())
