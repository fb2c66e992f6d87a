"""Run one of `applications.py` as another tracer traces it, whose spans go to a service of ours.

    python -m tests.benchmarks.traced_by TRACER APPLICATION

Each tracer is started as its documentation says, with all instrumentations that are installed.
"""

# ruff: noqa: PLC0415 - each has libraries of its own

import contextlib
import json
import os
import sys
from http.client import HTTPConnection
from importlib.metadata import entry_points
from typing import Any

ENDPOINT = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
SERVICE = os.environ.get("OTEL_SERVICE_NAME", "")


def _instrumented(group: str) -> None:
    """Start OpenTelemetry's SDK, and every instrumentation of a group."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    for each in entry_points(group=group):
        try:
            each.load()().instrument(tracer_provider=provider)
        except ImportError as error:  # of a library that is not installed
            print(f"{each.name}: {error}", file=sys.stderr)


def contrib() -> None:
    """OpenTelemetry's own instrumentations."""
    _instrumented("opentelemetry_instrumentor")


def openinference() -> None:
    """Arize's."""
    _instrumented("openinference_instrumentor")


def openllmetry() -> None:
    """Traceloop's."""
    from traceloop.sdk import Traceloop

    Traceloop.init(app_name=SERVICE, api_endpoint=ENDPOINT, telemetry_enabled=False)


def openlit() -> None:
    """OpenLIT's."""
    import openlit as library

    library.init(application_name=SERVICE, otlp_endpoint=ENDPOINT, disable_metrics=True)


def ddtrace() -> None:
    """Datadog's, whose spans are written down as OTLP for the service to read."""
    os.environ |= {
        "DD_TRACE_OTEL_ENABLED": "true",
        "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    }
    from ddtrace.trace import TraceFilter, tracer

    class Keeping(TraceFilter):  # type: ignore[misc,unused-ignore]
        """Keeps what has ended, from Datadog's agent too."""

        def process_trace(self, trace: Any) -> None:  # noqa: ANN401 - of ddtrace
            """Keep a trace."""
            _kept.extend(map(_written, trace))

    tracer.configure(trace_processors=[Keeping()])


_kept: list[dict[str, Any]] = []
_KINDS = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}


def _written(span: Any) -> dict[str, Any]:  # noqa: ANN401 - of ddtrace
    """Write a span down, its tags as attributes."""
    tags = {**span.get_tags(), "resource.name": span.resource, "span.type": span.span_type}
    return {
        "traceId": f"{span.trace_id:032x}",
        "spanId": f"{span.span_id:016x}",
        "parentSpanId": f"{span.parent_id:016x}" if span.parent_id else "",
        "name": span.name,
        "kind": _KINDS.get(str(span.get_tag("span.kind")), 1),
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.start_ns + span.duration_ns),
        "attributes": [
            {"key": key, "value": {"stringValue": str(value)}}
            for key, value in tags.items()
            if value
        ],
    }


def _send() -> None:
    """Send what was kept."""
    service = {"key": "service.name", "value": {"stringValue": SERVICE}}
    scopes = [{"scope": {"name": "ddtrace"}, "spans": _kept}]
    document = {"resourceSpans": [{"resource": {"attributes": [service]}, "scopeSpans": scopes}]}
    headers = {"Content-Type": "application/json"}
    with contextlib.closing(HTTPConnection(ENDPOINT.removeprefix("http://"))) as connection:
        connection.request("POST", "/v1/traces", json.dumps(document), headers)
        connection.getresponse().read()


TRACERS = (contrib, openinference, openllmetry, openlit, ddtrace)


def main(tracer: str, application: str) -> None:
    """Run it."""
    {each.__name__: each for each in TRACERS}[tracer]()
    from tests.benchmarks import applications

    applications.main(application)
    if _kept:
        _send()


if __name__ == "__main__":
    main(*sys.argv[1:])
