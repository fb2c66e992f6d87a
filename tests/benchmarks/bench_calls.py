"""What tracing adds to one outgoing call, in instructions, which no neighbour changes.

    python -m tests.benchmarks.bench_calls [CLIENT ...]    # needs valgrind; some minutes

A client asks a service on loopback that answers at once: four calls below a span, as in a request,
at once where the client is asynchronous. Each tracer is begun, warmed up and counted in turn, in
one process a client under valgrind's callgrind: user space, all threads, and no span is sent.
Contrib's instrumentations are those of `.peers/contrib` (`make bench-calls` installs them).
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import httpx
import requests
import sqlalchemy
import urllib3
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from sqlalchemy.pool import StaticPool

import latencytrace

ROUNDS, WARM_UP, AT_ONCE = 20, 30, 4
TRACERS = ("untraced", "latencytrace", "contrib")  # contrib last: it cannot be taken away
SERVE, COUNT = "serve", "count"
QUESTION = {"query": "what", "part": 1}
PEER = Path(__file__).parents[2] / ".peers" / "contrib"  # and a SQLAlchemy that they take
NEVER_MS = 3_600_000
BODY = b"x" * 300
ANSWER = (
    b"HTTP/1.1 200 OK\r\nserver: test\r\ndate: Sun, 29 Nov 2026 14:00:00 GMT\r\n"
    b"content-type: application/json\r\ncontent-length: 300\r\n\r\n"
) + BODY
# Each call of this one in C ends a count; the clients never call it.
ENDS_A_COUNT, DUMPED_BEFORE = os.getloadavg, "os_getloadavg*"

Round = Callable[[], Awaitable[object]]


class Nothing(SpanExporter):
    """Sends no span."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Forget them."""
        return SpanExportResult.SUCCESS


@asynccontextmanager
async def of_httpx(url: str) -> AsyncIterator[Round]:
    """Ask with httpx, all at once."""
    async with httpx.AsyncClient() as client:
        yield lambda: asyncio.gather(*(client.post(url, json=QUESTION) for _ in range(AT_ONCE)))


@asynccontextmanager
async def of_aiohttp(url: str) -> AsyncIterator[Round]:
    """Ask with aiohttp, all at once."""
    async with aiohttp.ClientSession() as session:

        async def ask() -> None:
            async with session.post(url, json=QUESTION) as answer:
                await answer.read()

        yield lambda: asyncio.gather(*(ask() for _ in range(AT_ONCE)))


@asynccontextmanager
async def of_requests(url: str) -> AsyncIterator[Round]:
    """Ask with requests, one after another."""
    with requests.Session() as session:

        async def ask() -> None:
            for _ in range(AT_ONCE):
                session.post(url, json=QUESTION, timeout=10)

        yield ask


@asynccontextmanager
async def of_urllib3(url: str) -> AsyncIterator[Round]:
    """Ask with urllib3, one after another."""
    with urllib3.PoolManager() as pool:

        async def ask() -> None:
            for _ in range(AT_ONCE):
                pool.request("POST", url, json=QUESTION)

        yield ask


@asynccontextmanager
async def of_sqlalchemy(_: str) -> AsyncIterator[Round]:
    """Ask a database of this process's own, one statement after another."""
    engine = sqlalchemy.create_engine("sqlite://", poolclass=StaticPool)
    statement = sqlalchemy.text("SELECT :part + 1")

    async def ask() -> None:
        with engine.connect() as connection:
            for part in range(AT_ONCE):
                connection.execute(statement, {"part": part}).scalar_one()

    yield ask


# Each with contrib's instrumentation.
CLIENTS = {
    "httpx": (of_httpx, "httpx"),
    "aiohttp": (of_aiohttp, "aiohttp-client"),
    "requests": (of_requests, "requests"),
    "urllib3": (of_urllib3, "urllib3"),
    "sqlalchemy": (of_sqlalchemy, "sqlalchemy"),
}


def begin(tracer: str, client: str) -> None:
    """Begin to trace."""
    if tracer == "latencytrace":
        latencytrace.instrument("bench", hooks=[client])
    elif tracer == "contrib":
        latencytrace.uninstrument()
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(Nothing(), schedule_delay_millis=NEVER_MS))
        trace.set_tracer_provider(provider)
        _, name = CLIENTS[client]
        (found,) = entry_points(group="opentelemetry_instrumentor", name=name)
        found.load()().instrument()


async def count(client: str, url: str) -> None:
    """Be counted with each tracer."""
    for tracer in TRACERS:
        begin(tracer, client)
        async with CLIENTS[client][0](url) as ask:  # aiohttp's is told when it is made
            for rounds in (WARM_UP, ROUNDS):
                for _ in range(rounds):
                    with trace.get_tracer("bench").start_as_current_span("request"):
                        await ask()
                ENDS_A_COUNT()


async def serve() -> None:
    """Answer every request on a port that is printed."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: (\d+)", head.lower())
                await reader.readexactly(int(length[1]) if length else 0)
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@contextmanager
def serving() -> Iterator[str]:
    """Run the service in a process of its own; yield its address."""
    command = (sys.executable, "-m", __spec__.name, SERVE)
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}/search"
    finally:
        server.kill()
        server.wait()


def counted(client: str, url: str) -> dict[str, float]:
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
            f"--dump-before={DUMPED_BEFORE}", sys.executable, "-m",
            __spec__.name, COUNT, client, url,
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=", ".join(CLIENTS))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with serving() as url:
        found = {client: counted(client, url) for client in asked.clients or CLIENTS}
    if asked.json:
        print(json.dumps(found))
        return
    print("| instructions a call | untraced | latencytrace | contrib | share |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for client, by_tracer in found.items():
        ours, contrib = (by_tracer[each] - by_tracer["untraced"] for each in TRACERS[1:])
        cells = f"{by_tracer['untraced']:,.0f} | {ours:+,.0f} | {contrib:+,.0f}"
        print(f"| {client} | {cells} | {ours / contrib:.3f} |")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            asyncio.run(serve())
        case ["count", client, url]:
            asyncio.run(count(client, url))
            sys.stdout.flush()
            os._exit(0)  # what the end of a process takes is none of it
        case _:
            main()
