"""What the agent says that a process is, beside what the SDK says of the same."""

import os
from collections.abc import Mapping

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from latencytrace.agent.export.otlp_traces import OtlpEncoder
from latencytrace.agent.process.name import this_program
from latencytrace.agent.process.resource import resource_of
from latencytrace.settings import agent_settings
from tests.support.agent.hooked import Spans
from tests.support.agent.receiving import attributes_of

ADDED = {
    "service.instance.id", "host.name", "process.pid",
    "telemetry.distro.name", "telemetry.distro.version",
}  # fmt: skip
ENVIRONMENTS = [
    {},
    {"OTEL_SERVICE_NAME": "rag"},
    {"OTEL_RESOURCE_ATTRIBUTES": "service.name=other,service.version=1.2,team=a%20b,empty="},
    {"OTEL_SERVICE_NAME": "rag", "OTEL_RESOURCE_ATTRIBUTES": "service.name=other"},
    {"OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=pod-7,host.name=node-1"},
    {"OTEL_RESOURCE_ATTRIBUTES": "no pair,=no key,a=b=c, spaced = out "},
    {"OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "process,os,host"},
    {"OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "no_such_detector,os"},
]


def of_the_sdk() -> Mapping[str, object]:
    """What the SDK sends."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create(), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.get_tracer("scope").start_span("name").end()
    provider.shutdown()
    (of_resource,) = encode_spans(exporter.get_finished_spans()).resource_spans
    return attributes_of(of_resource.resource.attributes)


def of_ours() -> Mapping[str, object]:
    """What we send."""
    spans = Spans()
    spans.recorder.start("name").end()
    told = agent_settings(environ=os.environ)
    resource = resource_of(
        told.service_name, told.resource_attributes, detectors=told.resource_detectors
    )
    body = OtlpEncoder(resource).encode(spans.all)
    (of_resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    return attributes_of(of_resource.resource.attributes)


@pytest.mark.parametrize("environ", ENVIRONMENTS)
def test_the_same_environment_makes_the_sdk_s_resource_and_ours_no_less(
    monkeypatch: pytest.MonkeyPatch, environ: Mapping[str, str]
) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    theirs, ours = of_the_sdk(), of_ours()

    is_named = "service.instance.id" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    drawn = set() if is_named else {"service.instance.id"}  # at random
    differing = {key for key in theirs if ours.get(key) != theirs[key]}
    assert differing <= {"service.name"} | drawn
    assert ours.keys() - theirs.keys() <= ADDED
    if "service.name" in differing:  # where the SDK does not know it
        assert str(theirs["service.name"]).startswith("unknown_service")
        assert ours["service.name"] == this_program()
