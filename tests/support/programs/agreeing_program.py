"""One service of a small system, traced by OpenTelemetry's own SDK, that writes down what it sent.

`python -m tests.support.programs.agreeing_program ROLE RECORD`, with the SDK's variables set.
A server prints its address and ends with its standard input; the `gateway` reads there which
requests to make, of which servers. Its record holds every span as the SDK ended it.
"""

import json
import random
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    format_span_id,
    format_trace_id,
)

from tests.support.servers.recording import Received, RecordingServer, Response

CALLERS = 8
MOST_MS = 12  # of a step
FAILED = 0.1  # of the requests


class Record(SpanProcessor):
    """Every span that ended."""

    def __init__(self) -> None:
        self.spans: list[Mapping[str, object]] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Note it."""
        assert span.context is not None
        self.spans.append(
            {
                "trace_id": format_trace_id(span.context.trace_id),
                "span_id": format_span_id(span.context.span_id),
                "parent_id": None if span.parent is None else format_span_id(span.parent.span_id),
                "service": span.resource.attributes["service.name"],
                "name": span.name,
                "kind": span.kind.name,
                "start_ns": span.start_time,
                "end_ns": span.end_time,
                "failed": span.status.status_code is StatusCode.ERROR,
                "tokens": (span.attributes or {}).get("gen_ai.usage.output_tokens", 0),
            }
        )


def work(tracer: Tracer, name: str, **attributes: Any) -> None:
    """A step that takes a while."""
    with tracer.start_as_current_span(name) as span:
        span.set_attributes({key.replace("__", "."): value for key, value in attributes.items()})
        time.sleep(random.random() * MOST_MS / 1000)


def search(tracer: Tracer) -> None:
    """A vector search."""
    work(tracer, "search", db__system__name="qdrant")


def generate(tracer: Tracer) -> None:
    """A generation."""
    work(tracer, "prefill")
    made = random.randint(1, 9)
    work(tracer, "decode", gen_ai__request__model="tiny", gen_ai__usage__output_tokens=made)


def call(tracer: Tracer, address: str, path: str) -> None:
    """Call another service, as a client's instrumentation would trace it."""
    with tracer.start_as_current_span(
        "POST", kind=SpanKind.CLIENT, attributes={"http.request.method": "POST"}
    ):
        headers: dict[str, str] = {}
        propagate.inject(headers)
        connection = HTTPConnection(address, timeout=60)
        connection.request("POST", path, headers=headers)
        connection.getresponse().read()
        connection.close()


def served(tracer: Tracer, path: str, context: Context, answer: Callable[[], None]) -> None:
    """Answer a request within its server span."""
    attributes = {"http.request.method": "POST", "http.route": path}
    with tracer.start_as_current_span(
        f"POST {path}", context, SpanKind.SERVER, attributes=attributes
    ) as span:
        answer()
        failed = random.random() < FAILED
        span.set_attribute("http.response.status_code", 500 if failed else 200)
        if failed:
            span.set_status(Status(StatusCode.ERROR))


def serve(tracer: Tracer, answer: Callable[[Tracer], None]) -> None:
    """Serve until the standard input ends."""

    def respond(received: Received) -> Response:
        context = propagate.extract(dict(received.headers))
        served(tracer, received.path, context, lambda: answer(tracer))
        return Response()

    with RecordingServer(respond) as server:
        sys.stdout.write(f"{server.host}\n")
        sys.stdout.flush()
        sys.stdin.read()


def ask(tracer: Tracer, wanted: Mapping[str, Any]) -> None:
    """Make requests that pass through the other services, so many a second."""

    def one(number: int) -> None:
        def answer() -> None:
            work(tracer, "tokenizer.encode")
            for address, path in wanted["calls"]:
                call(tracer, address, path)

        served(tracer, wanted["routes"][number % len(wanted["routes"])], Context(), answer)

    with ThreadPoolExecutor(CALLERS) as callers:
        for number in range(wanted["requests"]):
            callers.submit(one, number)
            time.sleep(1 / wanted["per_s"])


def main(role: str, record: Path) -> None:
    """Be one service."""
    ended = Record()
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    provider.add_span_processor(ended)
    tracer = provider.get_tracer("agreeing")
    if role == "gateway":
        ask(tracer, json.loads(sys.stdin.readline()))
        record.write_text(json.dumps(ended.spans))
        sys.stdout.write("done\n")
        sys.stdout.flush()
        sys.stdin.read()  # its spans are sent when their time has come
    else:
        serve(tracer, {"search": search, "gpu": generate}[role])
    record.write_text(json.dumps(ended.spans))
    provider.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
