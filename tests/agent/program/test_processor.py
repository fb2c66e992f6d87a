"""Spans of the SDK's own provider, as our encoder writes them, against the SDK's encoder."""

from collections.abc import Iterator

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import (
    ReadableSpan,
    SpanLimits,
    SpanProcessor,
    SynchronousMultiSpanProcessor,
    TracerProvider,
)
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from latencytrace.agent.export.otlp_traces import OtlpEncoder
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.program.processor import ProgramProcessor, add_to
from latencytrace.agent.spans.processors import ProgramProcessors
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.spans.tracer import RecordingTracer, Scope

REMOTE = SpanContext(
    7, 8, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("a", "b")])
)


class Program:
    """A provider of the SDK's, with our processor and one of the SDK's."""

    def __init__(self) -> None:
        self.memory = InMemorySpanExporter()
        self.taken: list[RecordedSpan] = []
        self.processor = ProgramProcessor(self.taken.append, lambda _: None, raise_fault)
        self.provider = TracerProvider(
            resource=Resource({"service.name": "theirs", "list": ("a", 1.5)}),
            span_limits=SpanLimits(max_events=2, max_links=2, max_span_attributes=4),
        )
        self.provider.add_span_processor(SimpleSpanProcessor(self.memory))
        self.provider.add_span_processor(self.processor)

    def make(self) -> None:
        """End spans of every kind, of two scopes."""
        tracer = self.provider.get_tracer("scope", "1.2", "https://schema", {"kept": True})
        other = self.provider.get_tracer("other")
        far = set_span_in_context(NonRecordingSpan(REMOTE))
        with tracer.start_as_current_span(
            "root", far, SpanKind.SERVER, {"text": "ä", "number": 1, "share": 0.5, "yes": True}
        ) as root:
            root.add_event("event", {"key": ("a", "b")}, timestamp=5)
            other.start_span("child", links=[Link(REMOTE, {"why": "so"})]).end()
        with tracer.start_as_current_span("full", attributes=dict.fromkeys("abcdef", 1)) as full:
            for number in range(4):
                full.add_event(f"event {number}", timestamp=number)
                full.add_link(REMOTE)
            full.set_status(StatusCode.ERROR, "it broke")
        tracer.start_span("ok", start_time=1).end(2)


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    yield program
    program.provider.shutdown()


def by_name(body: bytes) -> dict[tuple[str, str, str], OtlpSpan]:
    """Each span of a request, without what the SDK's leaves out, by resource, scope and name."""
    found = {}
    for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                span.ClearField("flags")
                span.status.SetInParent()
                for link in span.links:
                    link.ClearField("flags")
                    link.ClearField("trace_state")
                place = (str(of_resource.resource), f"{of_scope.scope} {of_scope.schema_url}")
                found[(*place, span.name)] = span
    return found


def sdks(spans: tuple[ReadableSpan, ...]) -> bytes:
    return bytes(encode_spans(spans).SerializeToString())


def test_a_span_of_the_programs_arrives_as_the_sdk_would_have_sent_it(program: Program) -> None:
    program.make()

    ours = by_name(OtlpEncoder({"service.name": "ours"}).encode(program.taken))

    assert len(ours) == 4
    assert ours == by_name(sdks(program.memory.get_finished_spans()))


def test_spans_of_both_providers_keep_their_resources_in_one_post(program: Program) -> None:
    program.make()
    encoder = OtlpEncoder({"service.name": "ours"})
    mine = program.taken[-1]
    mine.tracer = RecordingTracer(Scope("ours", None), ProgramProcessors())

    request = ExportTraceServiceRequest.FromString(encoder.encode(program.taken))

    names = [
        (of_resource.resource.attributes[0].value.string_value, len(of_resource.scope_spans))
        for of_resource in request.resource_spans
    ]
    assert names == [("theirs", 2), ("ours", 1)]


def test_what_is_not_sampled_is_not_sent(program: Program) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF)
    provider.add_span_processor(program.processor)

    provider.get_tracer("scope").start_span("unseen").end()

    assert program.taken == []


def test_tracers_of_which_there_are_ever_more_are_not_all_kept(program: Program) -> None:
    for number in range(2500):
        program.provider.get_tracer(f"scope {number}").start_span("name").end()

    assert len({id(span.tracer) for span in program.taken}) == 2500
    assert len(program.processor._tracers) <= 1000


def test_a_provider_that_was_left_is_listened_to_no_more(program: Program) -> None:
    program.processor.leave()

    program.make()

    assert program.taken == []


def test_a_provider_that_takes_its_own_processor_away_for_another_keeps_it_for_ours() -> None:
    class Replacing(TracerProvider):
        """As Phoenix's is."""

        def add_span_processor(self, span_processor: SpanProcessor) -> None:
            self._active_span_processor = SynchronousMultiSpanProcessor()  # type: ignore[no-untyped-call]
            super().add_span_processor(span_processor)

    memory, taken = InMemorySpanExporter(), list[RecordedSpan]()
    provider = Replacing()
    provider.add_span_processor(SimpleSpanProcessor(memory))

    add_to(provider, ProgramProcessor(taken.append, lambda _: None, raise_fault))
    provider.get_tracer("scope").start_span("both").end()

    assert [span.name for span in memory.get_finished_spans()] == ["both"]
    assert [span.name for span in taken] == ["both"]
