"""What a core in C would cost: a prototype (`compiled_core.c`) beside our span and the SDK's.

    python -m tests.benchmarks.bench_compiled [--rounds 25]

It is compiled into a temporary folder by the compiler that Python itself was built with. Pairs of
nested spans with 5 attributes each, as in `bench_span.py`, sent to a receiver in a process of its
own; the rounds of all are interleaved. Beside them a stream's chunk: what timing its send and
reading it add to sending it; the prototype times the send, and what reads is the same. What the
prototype encodes is read back by the stock protobuf classes first.
"""

import argparse
import gc
import http.client
import importlib.util
import logging
import os
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # where a context holds its span
)

import latencytrace
from latencytrace.agent.export.otlp_traces import OtlpEncoder
from latencytrace.agent.guard import FaultCounter
from latencytrace.agent.hooks.asgi import RequestTiming
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.timing.recorder import Recorder
from tests.benchmarks.bench_span import (
    ATTRIBUTES,
    FLUSH_S,
    PAIRS,
    SDK,
    WARM_UP_ROUNDS,
    Contestant,
    of_sdk,
    ratios,
    sdk,
)
from tests.benchmarks.contestant import through
from tests.benchmarks.discarding import Discarding, receive
from tests.benchmarks.request_server import CHUNKS, EVENT

SOURCE = Path(__file__).with_name("compiled_core.c")
PROTOTYPE, OURS = "prototype in C", "latencytrace"
STREAM_TURNS = 20  # a round
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
MESSAGES: list[Message] = [
    {"type": "http.response.body", "body": EVENT.replace(b"word", b"%d" % n), "more_body": True}
    for n in range(CHUNKS)
]
START: Message = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream")],
}


def compiled(folder: Path) -> Any:  # noqa: ANN401 - a module in C
    """Compile the prototype, and load it."""
    target = folder / f"core{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiler = sysconfig.get_config_var("CC").split()
    include = f"-I{sysconfig.get_paths()['include']}"
    command = [*compiler, "-O2", "-shared", "-fPIC", include, str(SOURCE), "-o", str(target)]
    subprocess.run(command, check=True)
    spec = importlib.util.spec_from_file_location("core", target)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prototype(core: Any) -> Any:  # noqa: ANN401 - of C
    """Return a tracer of the prototype's, whose bytes the stock classes read as what was made."""
    tracer = core.Tracer(ContextVar("current"), Context, _SPAN_KEY)
    through(tracer)()
    inner, outer = ScopeSpans.FromString(tracer.encode()).spans
    assert (inner.name, outer.name) == ("inner", "outer")
    assert inner.parent_span_id == outer.span_id
    assert inner.trace_id == outer.trace_id
    assert outer.start_time_unix_nano < inner.start_time_unix_nano < inner.end_time_unix_nano
    values = [getattr(one.value, str(one.value.WhichOneof("value"))) for one in outer.attributes]
    assert dict(zip([one.key for one in outer.attributes], values, strict=True)) == ATTRIBUTES
    return tracer


def posting(receiver: Discarding, tracer: Any) -> Callable[[], None]:  # noqa: ANN401 - of C
    """Return what encodes and posts the spans of the prototype."""
    encoder = OtlpEncoder({"service.name": "bench"})
    scope: Any = RecordingProvider().get_tracer("bench")
    connection = http.client.HTTPConnection("127.0.0.1", receiver.port)

    def flush() -> None:
        body = encoder.request([(scope, tracer.encode())])
        connection.request("POST", "/core/v1/traces", body)
        connection.getresponse().read()

    return flush


def spans(receiver: Discarding, rounds: int, core: Any) -> None:  # noqa: ANN401 - of C
    """Print what a span costs, in turns."""
    os.environ["LATENCYTRACE_OVERHEAD"] = "off"  # every span is measured
    latencytrace.instrument("bench", endpoint=receiver.address("ours"), hooks=[])
    over_http = sdk(OTLPSpanExporter(receiver.address("sdk") + "/v1/traces"))
    tracer = prototype(core)
    contestants = {
        SDK: Contestant(
            through(over_http.get_tracer("bench")),
            lambda: over_http.force_flush(int(FLUSH_S * 1000)),
        ),
        OURS: Contestant(through(trace.get_tracer("bench")), lambda: latencytrace.flush(FLUSH_S)),
        PROTOTYPE: Contestant(through(tracer), posting(receiver, tracer)),
    }
    for _ in range(WARM_UP_ROUNDS + rounds):
        for contestant in contestants.values():
            contestant.round()
    latencytrace.uninstrument()
    over_http.shutdown()
    made = 2 * PAIRS * (WARM_UP_ROUNDS + rounds)
    assert receiver.spans("core") == receiver.spans("ours") == made
    to = contestants[SDK]
    counted = slice(WARM_UP_ROUNDS, None)
    for name, of in contestants.items():
        thread, process = of.thread_us[counted], of.process_us[counted]
        print(
            f"{name:30}{statistics.median(thread):7.2f} µs "
            f"{of_sdk(ratios(thread, to.thread_us[counted]))}"
            f"{statistics.median(process):7.2f} µs "
            f"{of_sdk(ratios(process, to.process_us[counted]))}"
        )


async def untimed(_: Message) -> None:
    """Send nothing."""


async def chunks(send: Send) -> None:
    """Send all chunks of a stream."""
    for message in MESSAGES:
        await send(message)


def run(sent: Awaitable[None]) -> None:
    """Run what waits for nothing."""
    for _ in sent.__await__():
        raise AssertionError("it waits")


def through_the_hook(timed: Callable[[RequestTiming, Send], Send]) -> Callable[[], None]:
    """Return a stream as the ASGI hook times it, up to its last chunk but one."""
    recorder = Recorder(RecordingProvider().get_tracer("bench"), FaultCounter())

    def stream() -> None:
        request = RequestTiming(recorder, {"type": "http", "headers": []})
        send = timed(request, untimed)
        run(send(START))
        run(chunks(send))
        request.answer.catch_up()
        assert len(request.answer.sends) == 2 * (CHUNKS + 1)
        gaps = request._gaps  # noqa: SLF001 - the end is no chunk's
        assert gaps is not None
        recorder.open_requests.end(gaps)

    return stream


def through_c(core: Any) -> Callable[[RequestTiming, Send], Send]:  # noqa: ANN401 - of C
    """Return what times sends as the hook does, those of chunks by the prototype."""
    sent = RequestTiming.sent  # what replaces it may call this

    def timed(request: RequestTiming, send: Send) -> Send:
        sends: Send = core.Sends(send, sent(request, send), request.answer, request.answer.held)
        return sends

    return timed


def sends(rounds: int, core: Any) -> None:  # noqa: ANN401 - of C
    """Print what a chunk costs more than untimed, in turns."""
    streams = {
        "untimed": lambda: run(chunks(untimed)),
        OURS: through_the_hook(RequestTiming.sent),
        PROTOTYPE: through_the_hook(through_c(core)),
    }
    found: dict[str, list[float]] = {name: [] for name in streams}
    for _ in range(WARM_UP_ROUNDS + rounds):
        for name, stream in streams.items():
            gc.collect()
            began_ns = time.thread_time_ns()
            for _ in range(STREAM_TURNS):
                stream()
            found[name].append((time.thread_time_ns() - began_ns) / STREAM_TURNS / CHUNKS)
    bare = statistics.median(found.pop("untimed")[WARM_UP_ROUNDS:])
    for name, ns in found.items():
        print(f"{name:30}{statistics.median(ns[WARM_UP_ROUNDS:]) - bare:7.0f} ns a chunk")


def main() -> None:
    """Compile, and run all in turns."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=25)
    given = arguments.parse_args()
    logging.disable(logging.WARNING)  # the SDK's, of spans that it drops
    with TemporaryDirectory() as folder, receive(get_context("spawn")) as receiver:
        core = compiled(Path(folder))
        spans(receiver, given.rounds, core)
        sends(given.rounds, core)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
