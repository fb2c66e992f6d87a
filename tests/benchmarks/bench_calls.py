"""What tracing adds to one outgoing call, in instructions, which no neighbour changes.

    python -m tests.benchmarks.bench_calls      # needs valgrind; some minutes

An asynchronous client of `httpx` calls a service that answers at once, from within its process:
four calls at a time below a span, as in a request. Each tracer is begun, warmed up and counted in
turn, in one process under valgrind's callgrind: user space, all threads, and no span is sent.
Contrib's instrumentation is that of `.peers/contrib` (`make bench-routes` installs it).
"""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpcore
import httpx
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import latencytrace

ROUNDS, WARM_UP, AT_ONCE = 20, 30, 4
TRACERS = ("untraced", "latencytrace", "contrib")  # contrib last: it cannot be taken away
COUNTED = "counted"
URL, QUESTION = "http://service/search", {"query": "what", "part": 1}
PEER = Path(__file__).parents[2] / ".peers" / "contrib"
NEVER_MS = 3_600_000
BODY = b"x" * 300
ANSWER = (
    b"HTTP/1.1 200 OK\r\nserver: test\r\ndate: Sun, 29 Nov 2026 14:00:00 GMT\r\n"
    b"content-type: application/json\r\ncontent-length: 300\r\n\r\n"
) + BODY
# Each call of this one in C ends a count; the clients never call it.
ENDS_A_COUNT, DUMPED_BEFORE = os.getloadavg, "os_getloadavg*"


class Connection(httpcore.AsyncNetworkStream):
    """One that answers whatever is asked, after a turn of the event loop."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002, ASYNC109 - as its base has it
        """Return the answer."""
        await asyncio.sleep(0)
        return ANSWER

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109
        """Take the request."""
        await asyncio.sleep(0)

    async def aclose(self) -> None:
        """Do nothing."""

    def get_extra_info(self, info: str) -> Any:  # noqa: ARG002
        """Know nothing."""
        return None


class Network(httpcore.AsyncNetworkBackend):
    """What connects to nothing."""

    async def connect_tcp(self, *_: object, **__: object) -> Connection:
        """Return a connection."""
        return Connection()


class Nothing(SpanExporter):
    """Sends no span."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - as its base has it
        """Forget them."""
        return SpanExportResult.SUCCESS


def client() -> httpx.AsyncClient:
    """Return a client of the service."""
    transport: Any = httpx.AsyncHTTPTransport()
    transport._pool = httpcore.AsyncConnectionPool(network_backend=Network())
    return httpx.AsyncClient(transport=transport)


def begin(tracer: str) -> None:
    """Begin to trace."""
    if tracer == "latencytrace":
        latencytrace.instrument("bench", hooks=["httpx"])
    elif tracer == "contrib":
        latencytrace.uninstrument()
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(Nothing(), schedule_delay_millis=NEVER_MS))
        trace.set_tracer_provider(provider)
        (found,) = entry_points(group="opentelemetry_instrumentor", name="httpx")
        found.load()().instrument()


async def count() -> None:
    """Be counted with each tracer."""
    asks = client()
    for tracer in TRACERS:
        begin(tracer)
        for rounds in (WARM_UP, ROUNDS):
            for _ in range(rounds):
                with trace.get_tracer("bench").start_as_current_span("request"):
                    calls = (asks.post(URL, json=QUESTION) for _ in range(AT_ONCE))
                    await asyncio.gather(*calls)
            ENDS_A_COUNT()


def counted() -> dict[str, float]:
    """Return the instructions of one call, by tracer.

    Raises:
        FileNotFoundError: There is no valgrind.
    """
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((os.fspath(Path(__file__).parents[2]), os.fspath(PEER))),
        "PYTHONHASHSEED": "0",
        "OTEL_BSP_SCHEDULE_DELAY": str(NEVER_MS),
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "LATENCYTRACE_GPU": "0",
    }
    with TemporaryDirectory() as folder:
        file = Path(folder) / "counted"
        command = (
            "valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={file}",
            f"--dump-before={DUMPED_BEFORE}", sys.executable, "-m", __spec__.name, COUNTED,
        )  # fmt: skip
        subprocess.run(command, env=environ, check=True, stderr=subprocess.DEVNULL)
        dumps = sorted(Path(folder).glob("counted.*"), key=lambda each: int(each.suffix[1:]))
        totals = [re.findall(r"^totals: (\d+)", each.read_text(), re.MULTILINE) for each in dumps]
    measured = totals[1 : 2 * len(TRACERS) : 2]
    return {
        tracer: int(total) / ROUNDS / AT_ONCE
        for tracer, (total,) in zip(TRACERS, measured, strict=True)
    }


def main() -> None:
    """Count, and print the table."""
    if COUNTED in sys.argv:
        asyncio.run(count())
        sys.stdout.flush()
        os._exit(0)  # what the end of a process takes is none of it
    found = counted()
    ours, contrib = (found[each] - found["untraced"] for each in TRACERS[1:])
    print("| instructions a call | untraced | latencytrace | contrib | share |")
    print("| --- | ---: | ---: | ---: | ---: |")
    cells = f"{found['untraced']:,.0f} | {ours:+,.0f} | {contrib:+,.0f} | {ours / contrib:.3f}"
    print(f"| httpx | {cells} |")


if __name__ == "__main__":
    main()
