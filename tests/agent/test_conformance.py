"""The same program traced by OpenTelemetry's SDK and by us sends the same OTLP."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from latencytrace.agent.export.otlp_traces import OtlpEncoder
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.spans.sampling import sampling
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.settings import agent_settings
from tests.support.agent.receiving import Value, attributes_of
from tests.support.programs.traced_programs import PROGRAMS, Program, values_of_other_types

SCOPE: tuple[str, str, str, dict[str, Any]] = (
    "scope",
    "1.2",
    "https://opentelemetry.io/schemas/1.44.0",
    {"of": "scope", "n": [1]},
)
ENVIRONMENTS: Mapping[str, Mapping[str, str]] = {
    "by default": {},
    "few of each": {
        "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "3",
        "OTEL_SPAN_EVENT_COUNT_LIMIT": "2",
        "OTEL_SPAN_LINK_COUNT_LIMIT": "1",
        "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": "1",
        "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT": "0",
    },
    "few attributes": {"OTEL_ATTRIBUTE_COUNT_LIMIT": "2"},
    "short texts": {
        "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "5",
        "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "2",
    },
    "short texts everywhere": {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "3"},
    "no limits": {
        "OTEL_ATTRIBUTE_COUNT_LIMIT": "",
        "OTEL_SPAN_EVENT_COUNT_LIMIT": "",
        "OTEL_SPAN_LINK_COUNT_LIMIT": "",
    },
    "always on": {"OTEL_TRACES_SAMPLER": "always_on"},
    "always off": {"OTEL_TRACES_SAMPLER": "always_off"},
    "all of a ratio": {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1"},
    "none of a ratio": {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"},
    "parents decide, else all": {"OTEL_TRACES_SAMPLER": "parentbased_always_on"},
    "parents decide, else none": {"OTEL_TRACES_SAMPLER": "parentbased_always_off"},
    "parents decide, else a ratio": {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio"},
}


class Traced:
    """What a program's spans became, and what it saw of them."""

    def __init__(self, request: ExportTraceServiceRequest, told: object) -> None:
        self.told = told
        self.spans = comparable(request)
        self.scopes = [
            (of_scope.scope.SerializeToString(deterministic=True), of_scope.schema_url)
            for of_resource in request.resource_spans
            for of_scope in of_resource.scope_spans
        ]


def traced_by_us(program: Program, environ: Mapping[str, str]) -> Traced:
    settings = agent_settings(environ=environ)
    ended: list[RecordedSpan] = []
    provider = RecordingProvider()
    named = "OTEL_TRACES_SAMPLER" in environ
    provider.configure(
        ended.append,
        limits=settings.limits,
        sampling=sampling(settings.sampler, settings.sampler_argument) if named else None,
        resource={"service.name": "program"},
    )
    told = program(provider.get_tracer(*SCOPE))
    encoded = OtlpEncoder({"service.name": "program"}).encode(ended) if ended else b""
    return Traced(ExportTraceServiceRequest.FromString(encoded), told)


def traced_by_the_sdk(program: Program) -> Traced:
    """With what the environment says."""
    memory = InMemorySpanExporter()
    sdk = TracerProvider(resource=Resource({"service.name": "program"}), shutdown_on_exit=False)
    sdk.add_span_processor(SimpleSpanProcessor(memory))
    told = program(sdk.get_tracer(*SCOPE))
    return Traced(encode_spans(memory.get_finished_spans()), told)


def comparable(request: ExportTraceServiceRequest) -> list[Mapping[str, object]]:
    """Every field of every span, but for those that differ from run to run."""
    spans = [
        span
        for of_resource in request.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]
    names = {span.span_id: span.name for span in spans}
    traces = {span.trace_id for span in spans}
    return sorted((_fields(span, names, len(traces)) for span in spans), key=repr)


def _fields(span: OtlpSpan, names: Mapping[bytes, str], traces: int) -> Mapping[str, object]:
    assert len(span.trace_id) == 16
    assert len(span.span_id) == 8
    recent = span.start_time_unix_nano > 1_750_000_000_000_000_000
    return {
        "name": span.name,
        "parent": names.get(span.parent_span_id, span.parent_span_id.hex()),
        "traces": traces,
        "times": None if recent else (span.start_time_unix_nano, span.end_time_unix_nano),
        "state": span.trace_state,
        "kind": span.kind,
        "flags": span.flags,
        "status": (span.status.code, span.status.message),
        "attributes": repr(sorted(attributes_of(span.attributes).items())),
        "dropped": (
            span.dropped_attributes_count,
            span.dropped_events_count,
            span.dropped_links_count,
        ),
        "links": [  # whose trace state and flags the SDK leaves out
            (
                link.trace_id,
                link.span_id,
                link.flags & 0x300,
                attributes_of(link.attributes),
                link.dropped_attributes_count,
            )
            for link in span.links
        ],
        "events": [
            (event.name, _event(attributes_of(event.attributes)), event.dropped_attributes_count)
            for event in span.events
        ],
        "event times": [e.time_unix_nano for e in span.events if e.time_unix_nano < 1_000_000],
    }


def _event(noted: dict[str, Value]) -> dict[str, Value]:
    stacktrace = str(noted.get("exception.stacktrace"))
    return {**noted, "exception.stacktrace": stacktrace.rpartition("\n  File")[0] != ""}


@pytest.fixture(params=[pytest.param(chosen, id=name) for name, chosen in ENVIRONMENTS.items()])
def environ(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> Mapping[str, str]:
    """Variables that both read."""
    caplog.set_level(logging.CRITICAL)  # the SDK logs each attribute beyond a limit
    chosen: Mapping[str, str] = request.param
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    return chosen


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_same_program_sends_the_same(program: Program, environ: Mapping[str, str]) -> None:
    sdk = traced_by_the_sdk(program)

    ours = traced_by_us(program, environ)

    assert ours.spans == sdk.spans
    assert ours.scopes == sdk.scopes
    assert ours.told == sdk.told


def test_values_that_are_said_as_text_are_the_same() -> None:
    sdk = traced_by_the_sdk(values_of_other_types)

    ours = traced_by_us(values_of_other_types, {})  # limits of length: the SDK does not cut them

    assert ours.spans == sdk.spans
