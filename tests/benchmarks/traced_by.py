"""Run one of `applications.py` as another tracer traces it, whose spans go to a service of ours.

    python -m tests.benchmarks.traced_by TRACER APPLICATION

Each tracer is started as its documentation says, with all instrumentations that are installed.
"""

import os
import sys
from importlib.metadata import entry_points

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
    """Datadog's, which sends OTLP where it is asked to, and answers OpenTelemetry's interface."""
    os.environ |= {
        "DD_TRACE_OTEL_ENABLED": "true",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
    }
    import ddtrace.auto  # noqa: F401 - it traces once imported


TRACERS = (contrib, openinference, openllmetry, openlit, ddtrace)


def main(tracer: str, application: str) -> None:
    """Run it."""
    {each.__name__: each for each in TRACERS}[tracer]()
    from tests.benchmarks import applications

    applications.main(application)


if __name__ == "__main__":
    main(*sys.argv[1:])
