"""One way of tracing in a process and an environment of its own, told what to do line by line.

    python contestant.py NAME ADDRESS

It needs nothing but the contestant's own packages. Each line on standard input is a task
(`round 1000`, `late 1000`, `loop 10000`), each line on standard output its answer as JSON.
"""

import gc
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ATTRIBUTES: dict[str, Any] = {
    "collection": "passages",
    "limit": 8,
    "score": 0.73,
    "model": "mini",
    "cached": True,
}
FLUSH_S = 60
SLEEP_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Contestant:
    """How it makes a pair of nested spans with five attributes each, and sends what it holds."""

    pair: Callable[[], object]
    flush: Callable[[], object]


def through(tracer: Any) -> Callable[[], None]:
    """A pair as any instrumentation of OpenTelemetry makes it."""

    def pair() -> None:
        with (
            tracer.start_as_current_span("outer", attributes=ATTRIBUTES),
            tracer.start_as_current_span("inner", attributes=ATTRIBUTES),
        ):
            pass

    return pair


def untraced(_: str) -> Contestant:
    """No span at all."""
    return Contestant(lambda: None, lambda: None)


def sdk_to_nobody(_: str) -> Contestant:
    """The SDK with the processor that everybody uses, and an exporter that does nothing."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Null(SpanExporter):
        def export(self, _: object) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    return _sdk(Null())


def sdk(address: str) -> Contestant:
    """The SDK with its batch processor and its OTLP exporter over HTTP."""
    return _sdk(_otlp(address))


def _otlp(address: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(address + "/v1/traces")


def _sdk(exporter: Any) -> Contestant:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Contestant(through(provider.get_tracer("bench")), provider.force_flush)


def latencytrace_spans(address: str) -> Contestant:
    """Ours, through OpenTelemetry's interface."""
    from opentelemetry import trace

    import latencytrace

    os.environ["LATENCYTRACE_OVERHEAD"] = "off"  # every span is measured
    latencytrace.instrument("bench", endpoint=address, hooks=[])
    return Contestant(through(trace.get_tracer("bench")), lambda: latencytrace.flush(FLUSH_S))


def latencytrace_stages(address: str) -> Contestant:
    """Ours, as the user's own stages."""
    import latencytrace

    def pair() -> None:
        with (
            latencytrace.stage("rerank", **ATTRIBUTES),
            latencytrace.stage("embed", **ATTRIBUTES),
        ):
            pass

    os.environ["LATENCYTRACE_OVERHEAD"] = "off"  # every span is measured
    latencytrace.instrument("bench", endpoint=address, hooks=[])
    return Contestant(pair, lambda: latencytrace.flush(FLUSH_S))


def fastotel(address: str) -> Contestant:
    """The SDK's spans, exported by a thread in Rust."""
    from fastotel import OTLPSpanProcessor
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider()
    provider.add_span_processor(OTLPSpanProcessor(endpoint=address + "/v1/traces"))
    return Contestant(through(provider.get_tracer("bench")), provider.force_flush)


def ddtrace(_: str) -> Contestant:
    """Datadog's tracer by its own interface; its address comes from the environment."""
    from ddtrace.trace import tracer

    def pair() -> None:
        with tracer.trace("outer") as outer:
            outer.set_tags(ATTRIBUTES)
            with tracer.trace("inner") as inner:
                inner.set_tags(ATTRIBUTES)

    return Contestant(pair, tracer.flush)


def openlit(address: str) -> Contestant:
    """OpenLIT's `start_trace`."""
    import openlit as library
    from opentelemetry import trace

    library.init(otlp_endpoint=address, disable_metrics=True, disable_events=True)

    def pair() -> None:
        with library.start_trace("outer") as outer:
            outer.set_metadata(ATTRIBUTES)
            with library.start_trace("inner") as inner:
                inner.set_metadata(ATTRIBUTES)

    return Contestant(pair, _provider_flush(trace))


def openllmetry(address: str) -> Contestant:
    """Traceloop's provider, with its span processor, through OpenTelemetry's interface."""
    from opentelemetry import trace
    from traceloop.sdk import Traceloop

    Traceloop.init("bench", api_endpoint=address, telemetry_enabled=False, api_key="none")
    return Contestant(through(trace.get_tracer("bench")), _provider_flush(trace))


def openinference(address: str) -> Contestant:
    """OpenInference's tracer around the SDK's, as its instrumentations use it."""
    from openinference.instrumentation import TraceConfig, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(config=TraceConfig())
    provider.add_span_processor(BatchSpanProcessor(_otlp(address)))
    return Contestant(through(provider.get_tracer("bench")), provider.force_flush)


def logfire(address: str) -> Contestant:
    """Logfire's `span`, sent to an OTLP receiver."""
    import logfire as library
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    library.configure(
        send_to_logfire=False,
        console=False,
        metrics=False,
        additional_span_processors=[BatchSpanProcessor(_otlp(address))],
    )

    def pair() -> None:
        with library.span("outer", **ATTRIBUTES), library.span("inner", **ATTRIBUTES):
            pass

    return Contestant(pair, library.force_flush)


def langfuse(address: str) -> Contestant:
    """Langfuse's context manager, the attributes as metadata."""
    from langfuse import Langfuse

    client = Langfuse(public_key="pk-lf-none", secret_key="sk-lf-none", base_url=address)

    def pair() -> None:
        with (
            client.start_as_current_observation(name="outer", metadata=ATTRIBUTES),
            client.start_as_current_observation(name="inner", metadata=ATTRIBUTES),
        ):
            pass

    return Contestant(pair, client.flush)


def _provider_flush(trace: Any) -> Callable[[], object]:
    flush: Callable[[], object] = trace.get_tracer_provider().force_flush
    return flush


CONTESTANTS: Mapping[str, Callable[[str], Contestant]] = {
    "untraced": untraced,
    "untraced-again": untraced,
    "sdk-to-nobody": sdk_to_nobody,
    "sdk": sdk,
    "latencytrace": latencytrace_spans,
    "latencytrace-stages": latencytrace_stages,
    "fastotel": fastotel,
    "ddtrace": ddtrace,
    "openlit": openlit,
    "openllmetry": openllmetry,
    "openinference": openinference,
    "logfire": logfire,
    "langfuse": langfuse,
}


def spans_round(contestant: Contestant, pairs: int) -> dict[str, float]:
    """CPU time in µs a span, of the serving thread and, sent, of the whole process."""
    pair = contestant.pair
    gc.collect()
    process_ns, thread_ns = time.process_time_ns(), time.thread_time_ns()
    for _ in range(pairs):
        pair()
    thread_ns = time.thread_time_ns() - thread_ns
    contestant.flush()
    process_ns = time.process_time_ns() - process_ns
    return {"thread_us": thread_ns / 2000 / pairs, "process_us": process_ns / 2000 / pairs}


def late_round(contestant: Contestant, sleeps: int) -> dict[str, float]:
    """How late the worst hundredth of 1 ms sleeps end, in µs, with four spans after each."""
    pair, late = contestant.pair, []
    for _ in range(sleeps):
        began_ns = time.perf_counter_ns()
        time.sleep(SLEEP_NS / 1e9)
        late.append(time.perf_counter_ns() - began_ns - SLEEP_NS)
        pair()
        pair()
    contestant.flush()
    late.sort()
    return {"p99_us": late[int(len(late) * 0.99)] / 1000}


def tight_loop(contestant: Contestant, pairs: int) -> dict[str, float]:
    """Make spans as fast as it goes, for somebody else to count."""
    for _ in range(pairs):
        contestant.pair()
    contestant.flush()
    return {"made": 2.0 * pairs}


TASKS: Mapping[str, Callable[[Contestant, int], dict[str, float]]] = {
    "round": spans_round,
    "late": late_round,
    "loop": tight_loop,
}


def main() -> None:
    """Start, say so, and do what is asked until nobody asks."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    logging.disable(logging.CRITICAL)  # of spans that are dropped: they are counted
    name, address = sys.argv[1:]
    contestant = CONTESTANTS[name](address)
    answers.write("{}\n")
    for line in sys.stdin:
        task, count = line.split()
        answers.write(json.dumps(TASKS[task](contestant, int(count))) + "\n")


if __name__ == "__main__":
    main()
