"""Programs drawn at random, traced by OpenTelemetry's SDK and by us, send the same OTLP."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits as SdkLimits
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler
from opentelemetry.trace import (
    Link,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    set_span_in_context,
)

from latencytrace.agent.export.otlp_traces import OtlpEncoder
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.spans.sampling import sampling
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.model.span_limits import UNLIMITED, SpanLimits
from tests.agent.test_conformance import Traced
from tests.support.programs.traced_programs import LOCAL, NOBODY, REMOTE, OwnError, parent

names = st.sampled_from(["a", "b", "c", "d", "http.route", ""])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = (
    texts
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.binary(max_size=4)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner | st.none(), max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from(["x", "y", "z"]), inner, max_size=2)
    ),
    max_leaves=4,
)
noted = st.none() | st.dictionaries(names, values, max_size=4)
contexts = st.sampled_from([REMOTE, LOCAL, NOBODY])
links = st.lists(st.tuples(contexts, noted) | st.none(), max_size=3)
times = st.integers(1, 10**6)
which = st.integers(0, 5)
flags = st.booleans()
begun = st.fixed_dictionaries(
    {"name": names, "kind": st.sampled_from(SpanKind), "attributes": noted, "links": links},
    optional={"record_exception": flags, "set_status_on_exception": flags},
)
below = st.none() | st.integers(0, 3) | which.map(str)
calls = st.one_of(
    st.tuples(st.just("start"), begun, below),
    st.tuples(st.just("enter"), begun, below, flags),
    st.tuples(st.just("leave"), st.none() | st.sampled_from([OwnError("why"), ValueError()])),
    st.tuples(st.just("set"), which, names, values),
    st.tuples(st.just("set all"), which, noted),
    st.tuples(st.just("event"), which, names, noted, times),
    st.tuples(st.just("link"), which, contexts, noted),
    st.tuples(st.just("status"), which, st.sampled_from(StatusCode), st.none() | texts, flags),
    st.tuples(st.just("rename"), which, names),
    st.tuples(st.just("exception"), which, noted, times, flags),
    st.tuples(st.just("end"), which),
)
programs = st.lists(calls, max_size=25)
counts = st.sampled_from([0, 1, 2, 3, 128])
limits = st.builds(
    SpanLimits,
    attributes=counts,
    events=counts,
    links=counts,
    event_attributes=counts,
    link_attributes=counts,
    length=st.sampled_from([UNLIMITED, 0, 3]),
    other_length=st.sampled_from([UNLIMITED, 0, 3]),
)
SAMPLERS: Mapping[str | None, Sampler] = {
    None: ParentBased(ALWAYS_ON),
    "always_on": ALWAYS_ON,
    "always_off": ALWAYS_OFF,
    "parentbased_always_on": ParentBased(ALWAYS_ON),
    "parentbased_always_off": ParentBased(ALWAYS_OFF),
}


@dataclass(slots=True)
class Running:
    """A program under way, and what it sees of its spans."""

    tracer: Tracer
    spans: list[Span] = field(default_factory=list)
    blocks: list[AbstractContextManager[Span]] = field(default_factory=list)
    told: list[object] = field(default_factory=list)

    def run(self, program: list[Any]) -> list[object]:
        """Make its calls, and end what is left open."""
        for call, *arguments in program:
            getattr(self, call.replace(" ", "_"))(*arguments)
        while self.blocks:
            self.leave(None)
        for span in self.spans:
            span.end()
        return self.told

    def start(self, begun: Mapping[str, Any], below: object) -> None:
        """A span that is not current."""
        self.add(self.tracer.start_span(**self.arguments(begun, below)))

    def enter(self, begun: Mapping[str, Any], below: object, end: bool) -> None:
        """A span that is current until the matching `leave`."""
        self.blocks.append(
            self.tracer.start_as_current_span(**self.arguments(begun, below), end_on_exit=end)
        )
        self.add(self.blocks[-1].__enter__())

    def leave(self, error: Exception | None) -> None:
        """End the innermost block, by an error or not."""
        if self.blocks:
            with suppress(OwnError, ValueError), ExitStack() as end:
                end.push(self.blocks.pop())
                if error is not None:
                    raise error

    def arguments(self, begun: Mapping[str, Any], below: object) -> dict[str, Any]:
        """What a span is started with."""
        made = [None if one is None else Link(*one) for one in begun["links"]]
        context = None
        if isinstance(below, int):
            context = parent(below + 1, flags=below)
        elif isinstance(below, str) and self.spans:
            context = set_span_in_context(self.spans[int(below) % len(self.spans)])
        return {**begun, "links": made, "context": context}

    def add(self, span: Span) -> None:
        """Note what is seen of a new span."""
        self.spans.append(span)
        context = span.get_span_context()
        self.told.append((span.is_recording(), int(context.trace_flags), context.trace_state))

    def of(self, number: int) -> Iterator[Any]:
        """One of the spans so far."""
        if self.spans:
            yield self.spans[number % len(self.spans)]

    def set(self, number: int, key: str, value: object) -> None:
        """One attribute."""
        for span in self.of(number):
            span.set_attribute(key, value)

    def set_all(self, number: int, noted: Mapping[str, object] | None) -> None:
        """Several attributes."""
        for span in self.of(number):
            span.set_attributes(noted or {})

    def event(self, number: int, name: str, noted: Mapping[str, object] | None, at: int) -> None:
        """An event."""
        for span in self.of(number):
            span.add_event(name, noted, at)

    def link(self, number: int, context: object, noted: Mapping[str, object] | None) -> None:
        """A link."""
        for span in self.of(number):
            span.add_link(context, noted)

    def status(
        self,
        number: int,
        code: StatusCode,
        why: str | None,
        whole: bool,
    ) -> None:
        """A status, as one value or two."""
        for span in self.of(number):
            if whole:
                span.set_status(Status(code, why))
            else:
                span.set_status(code, why)

    def rename(self, number: int, name: str) -> None:
        """Another name."""
        for span in self.of(number):
            span.update_name(name)

    def exception(
        self,
        number: int,
        noted: Mapping[str, object] | None,
        at: int,
        escaped: bool,
    ) -> None:
        """An exception."""
        for span in self.of(number):
            span.record_exception(OwnError("why"), noted, at, escaped)

    def end(self, number: int) -> None:
        """Its end."""
        for span in self.of(number):
            span.end()


def by_the_sdk(program: list[Any], limits: SpanLimits, sampler: str | None) -> Traced:
    memory = InMemorySpanExporter()
    theirs = SdkLimits(
        max_span_attributes=limits.attributes,
        max_events=limits.events,
        max_links=limits.links,
        max_event_attributes=limits.event_attributes,
        max_link_attributes=limits.link_attributes,
        max_attribute_length=None if limits.other_length == UNLIMITED else limits.other_length,
        max_span_attribute_length=SdkLimits.UNSET if limits.length == UNLIMITED else limits.length,
    )
    provider = TracerProvider(
        SAMPLERS[sampler], Resource({}), shutdown_on_exit=False, span_limits=theirs
    )
    provider.add_span_processor(SimpleSpanProcessor(memory))
    told = Running(provider.get_tracer("scope")).run(program)
    return Traced(encode_spans(memory.get_finished_spans()), told)


def by_us(program: list[Any], limits: SpanLimits, sampler: str | None) -> Traced:
    ended: list[RecordedSpan] = []
    provider = RecordingProvider()
    provider.configure(
        ended.append, limits=limits, sampling=sampling(sampler, "") if sampler else None
    )
    told = Running(provider.get_tracer("scope")).run(program)
    encoded = OtlpEncoder({}).encode(ended) if ended else b""
    return Traced(ExportTraceServiceRequest.FromString(encoded), told)


@pytest.fixture(scope="module", autouse=True)
def the_sdk_is_quiet() -> Iterator[None]:
    """It logs each thing that it does not do."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@given(programs, limits, st.sampled_from([*SAMPLERS]))
def test_a_program_drawn_at_random_sends_the_same(
    program: list[Any], limits: SpanLimits, sampler: str | None
) -> None:
    sdk = by_the_sdk(program, limits, sampler)

    ours = by_us(program, limits, sampler)

    assert ours.spans == sdk.spans
    assert ours.told == sdk.told
