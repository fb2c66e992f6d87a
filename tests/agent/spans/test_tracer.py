"""Our tracer provider: ids, parents, sampling, processors, and the step behind another's."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, cast

import pytest
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, StaticSampler
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    NoOpTracer,
    ProxyTracerProvider,
    Span,
    SpanContext,
    TraceFlags,
    Tracer,
    TraceState,
    get_current_span,
    set_span_in_context,
)

from latencytrace.agent.budget.detail import DroppedSpan
from latencytrace.agent.clock import wall_ns
from latencytrace.agent.guard import FaultCounter
from latencytrace.agent.spans import provider as recording_provider
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.spans.tracer import RecordingTracer
from latencytrace.agent.timing.recorder import is_suppressed
from latencytrace.model.span_limits import SpanLimits
from tests.support.agent.hooked import Spans
from tests.support.waiting import PATIENCE_S

STATE = TraceState([("vendor", "value")])


def context_of(*, sampled: bool) -> Context:
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    parent = SpanContext(7, 8, is_remote=True, trace_flags=flags, trace_state=STATE)
    return set_span_in_context(NonRecordingSpan(parent), Context())


@contextmanager
def in_context(entries: dict[str, object]) -> Iterator[None]:
    """A block in another context, without a span."""
    token = attach(Context(entries))
    yield
    detach(token)


@pytest.fixture
def tracer(spans: Spans) -> Tracer:
    return spans.provider.get_tracer("scope", "1.2")


def test_a_span_without_a_parent_begins_a_trace_of_its_own(spans: Spans, tracer: Tracer) -> None:
    for _ in range(100):
        tracer.start_span("name").end()

    assert len({span.trace_id for span in spans.all}) == 100
    assert len({span.span_id for span in spans.all}) == 100
    assert {span.parent_id for span in spans.all} == {0}


def test_a_span_below_one_of_the_sdk_s_that_is_recorded_only_is_not_sampled(
    spans: Spans, tracer: Tracer
) -> None:
    program = TracerProvider(sampler=StaticSampler(Decision.RECORD_ONLY)).get_tracer("program")

    with program.start_as_current_span("recorded only"):
        below = tracer.start_span("below")

    assert not below.get_span_context().trace_flags.sampled
    assert spans.all == []


def test_a_program_that_seeds_the_generator_does_not_repeat_ids(
    spans: Spans, tracer: Tracer
) -> None:
    for _ in range(2):
        random.seed(0)
        tracer.start_span("name").end()

    first, second = spans.all
    assert first.trace_id != second.trace_id
    assert first.span_id != second.span_id


def test_a_program_that_draws_random_numbers_draws_those_it_drew_without_us(
    tracer: Tracer,
) -> None:
    random.seed(0)
    without = random.getrandbits(64)

    random.seed(0)
    tracer.start_span("name").end()

    assert random.getrandbits(64) == without


def test_below_a_parent_that_is_not_sampled_nothing_is_recorded(
    spans: Spans, tracer: Tracer
) -> None:
    with tracer.start_as_current_span("served", context=context_of(sampled=False)) as span:
        with tracer.start_as_current_span("below") as below:
            assert get_current_span() is below
        context = below.get_span_context()

    assert spans.all == []
    assert not span.is_recording()
    assert (context.trace_id, context.trace_flags.sampled) == (7, False)
    assert context.trace_state == STATE
    assert get_current_span() is INVALID_SPAN


# --- blocks that are made first, and entered later


def test_blocks_that_are_entered_one_within_another_are_one_trace(
    spans: Spans, tracer: Tracer
) -> None:
    blocks = [tracer.start_as_current_span(name) for name in ("outer", "middle", "inner")]

    with ExitStack() as stack:
        for block in blocks:
            stack.enter_context(block)

    inner, middle, outer = spans.all
    assert (inner.parent_id, middle.parent_id) == (middle.span_id, outer.span_id)
    assert outer.parent_id == 0
    assert {span.trace_id for span in spans.all} == {outer.trace_id}


@pytest.mark.parametrize("within", [True, False], ids=["elsewhere", "where it was made"])
def test_a_block_begins_when_it_is_entered(spans: Spans, tracer: Tracer, *, within: bool) -> None:
    block = tracer.start_as_current_span("block")

    with tracer.start_as_current_span("outer") if within else nullcontext():
        entered_ns = wall_ns()
        with block:
            pass

    assert spans.all[0].start_time >= entered_ns


def test_a_block_belongs_to_where_it_is_entered_not_to_where_it_was_made(
    spans: Spans, tracer: Tracer
) -> None:
    with tracer.start_as_current_span("made in", context=context_of(sampled=True)):
        block = tracer.start_as_current_span("block", attributes={"a": 1})

    with block:
        pass

    made_in, span = spans.all
    assert span.parent is None
    assert span.trace_id != made_in.trace_id
    assert span.get_span_context().trace_state == TraceState()
    assert span.attributes == {"a": 1}


def test_a_block_that_is_entered_below_a_remote_parent_has_its_trace(
    spans: Spans, tracer: Tracer
) -> None:
    block = tracer.start_as_current_span("block")

    token = attach(context_of(sampled=True))
    with block as span:
        current_within = get_current_span()
    detach(token)

    assert span is current_within
    assert (spans.only.trace_id, spans.only.parent_id) == (7, 8)
    assert spans.only.get_span_context().trace_state == STATE
    assert spans.only.parent is not None
    assert spans.only.parent.is_remote


def test_a_block_that_is_entered_where_nothing_is_recorded_is_not(
    spans: Spans, tracer: Tracer
) -> None:
    block = tracer.start_as_current_span("block")

    token = attach(context_of(sampled=False))
    with block as span:
        within = get_current_span()
    after = get_current_span().get_span_context()
    detach(token)

    assert spans.all == []
    assert within is span
    assert not span.is_recording()
    assert (span.get_span_context().trace_id, after.span_id) == (7, 8)


def test_a_block_that_is_never_entered_has_no_duration(spans: Spans, tracer: Tracer) -> None:
    block: Any = tracer.start_as_current_span("block")
    made_ns = wall_ns()

    block.end()

    assert spans.only.start_time == spans.only.end_time
    assert spans.only.start_time >= made_ns


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "dropped"])
@pytest.mark.parametrize("within", [True, False], ids=["elsewhere", "where it was made"])
def test_a_trace_that_begins_with_a_block_is_decided_on_once(
    spans: Spans, tracer: Tracer, *, within: bool, is_recorded: bool
) -> None:
    decided: list[RecordedSpan] = []

    def decide(span: RecordedSpan, _: object) -> Span | None:
        decided.append(span)
        return None if is_recorded else DroppedSpan(span.trace_id)

    cast("RecordingTracer", tracer).roots = decide
    block = tracer.start_as_current_span("block")
    with in_context({"key": 1}) if within and is_recorded else nullcontext(), block:
        pass

    assert len(decided) == 1
    assert spans.names == (["block"] if is_recorded else [])


def test_a_decorator_decides_on_each_call(spans: Spans, tracer: Tracer) -> None:
    decided: list[RecordedSpan] = []

    def decide(span: RecordedSpan, _: object) -> Span | None:
        decided.append(span)
        return DroppedSpan(span.trace_id) if len(decided) == 1 else None

    cast("RecordingTracer", tracer).roots = decide
    timed = tracer.start_as_current_span("call")(int)
    timed()
    timed()

    assert spans.names == ["call", "call"]


def test_asking_for_a_tracer_again_gives_the_same_one(spans: Spans, tracer: Tracer) -> None:
    assert spans.provider.get_tracer("scope", "1.2") is tracer
    assert spans.provider.get_tracer("scope") is not tracer


def test_scopes_are_told_apart_by_attributes_of_any_type(spans: Spans) -> None:
    get = spans.provider.get_tracer
    first = get("scope", attributes={"a": {"b": 1}})

    assert get("scope", attributes={"a": {"b": 1}}) is first
    assert get("scope", attributes={"a": {"b": 2}}) is not first


# --- processors that the program adds


class Watching(SpanProcessor):
    """Remembers what it was shown."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: list[ReadableSpan] = []
        self.stopped = False

    def on_start(self, span: SdkSpan, parent_context: Context | None = None) -> None:
        """Remember a start."""
        span.set_attribute("seen", value=True)
        self.started.append(span.name)

    def on_end(self, span: ReadableSpan) -> None:
        """Remember an end."""
        self.ended.append(span)

    def shutdown(self) -> None:
        """Remember the end of all."""
        self.stopped = True

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Hold nothing."""
        return timeout_millis > 1


def test_a_processor_that_the_program_adds_sees_every_span_as_the_sdks(
    spans: Spans, tracer: Tracer
) -> None:
    watching = Watching()
    spans.provider.add_span_processor(watching)

    with tracer.start_as_current_span("outer", context=context_of(sampled=True)) as outer:
        outer.add_event("event", {"a": 1})
        outer.add_link(outer.get_span_context())
    assert spans.provider.force_flush()

    (shown,) = watching.ended
    assert watching.started == ["outer"]
    assert isinstance(shown, ReadableSpan)
    assert shown.attributes == {"seen": True}
    assert (shown.events[0].name, len(shown.links)) == ("event", 1)
    assert shown.instrumentation_scope is not None
    assert shown.instrumentation_scope.name == "scope"
    assert shown.context == outer.get_span_context()
    assert shown.to_json()
    assert spans.all == [outer]


def test_an_exporter_of_the_sdk_works_behind_our_provider(spans: Spans, tracer: Tracer) -> None:
    memory = InMemorySpanExporter()
    spans.provider.add_span_processor(SimpleSpanProcessor(memory))

    tracer.start_span("name").end()
    assert spans.provider.force_flush()

    (shown,) = memory.get_finished_spans()
    assert shown.name == "name"
    assert encode_spans([shown]).resource_spans[0].scope_spans[0].spans[0].name == "name"


def test_an_exporter_sees_what_this_process_is(tracer: Tracer, spans: Spans) -> None:
    memory = InMemorySpanExporter()
    spans.provider.configure(spans.all.append, resource={"service.name": "program"})
    spans.provider.add_span_processor(SimpleSpanProcessor(memory))

    tracer.start_span("name").end()
    assert spans.provider.force_flush()

    assert memory.get_finished_spans()[0].resource.attributes == {"service.name": "program"}


def test_a_processor_that_the_program_flushes_or_shuts_down_itself_has_all_that_ended(
    spans: Spans, tracer: Tracer
) -> None:
    memory = InMemorySpanExporter()
    batches = BatchSpanProcessor(memory, schedule_delay_millis=PATIENCE_S * 1000)
    spans.provider.add_span_processor(batches)

    tracer.start_span("first").end()
    flushed = batches.force_flush()
    after_flush = [span.name for span in memory.get_finished_spans()]
    tracer.start_span("second").end()
    batches.shutdown()  # type: ignore[no-untyped-call]  # the SDK says no type

    assert flushed
    assert after_flush == ["first"]
    assert [span.name for span in memory.get_finished_spans()] == ["first", "second"]


def test_a_processor_may_change_a_span_that_is_ending(spans: Spans, tracer: Tracer) -> None:
    watching = Watching()

    class Redacting(SpanProcessor):
        def _on_ending(self, span: SdkSpan) -> None:
            cast("dict[str, object]", span._attributes)["key"] = "***"

    spans.provider.add_span_processor(Redacting())
    spans.provider.add_span_processor(watching)
    span = tracer.start_span("name", attributes={"key": "secret"})
    span.end()

    assert watching.ended[0].attributes == {"key": "***", "seen": True}
    assert isinstance(span, RecordedSpan)
    assert span.attributes == {"key": "***", "seen": True}


def test_what_a_processor_calls_while_it_is_shown_a_span_is_not_recorded(
    spans: Spans, tracer: Tracer
) -> None:
    suppressed: list[bool] = []

    class Posting(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            suppressed.append(is_suppressed(get_current()))

    spans.provider.add_span_processor(Posting())

    tracer.start_span("name").end()

    assert suppressed == [True]
    assert not is_suppressed(get_current())


def test_a_library_that_asks_whether_a_provider_is_set_goes_on_as_without_us(
    spans: Spans, tracer: Tracer
) -> None:
    assert isinstance(spans.provider, ProxyTracerProvider)
    assert isinstance(getattr(tracer, "_tracer", None), NoOpTracer)  # LangSmith's question


def test_a_processor_that_raises_is_a_fault_that_the_program_does_not_see(
    spans: Spans, tracer: Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[str] = []
    monkeypatch.setattr(FaultCounter, "__call__", lambda _, doing, __: faults.append(doing))
    watching = Watching()

    class Raising(SpanProcessor):
        def on_start(self, *_: object, **__: object) -> None:
            raise RuntimeError

        def on_end(self, *_: object) -> None:
            raise RuntimeError

    spans.provider.add_span_processor(Raising())
    spans.provider.add_span_processor(watching)
    tracer.start_span("name").end()
    assert spans.provider.force_flush()

    assert [span.name for span in watching.ended] == ["name"]
    assert faults == [
        "showing a started span to a processor",
        "showing an ended span to a processor",
    ]


def test_what_limits_leave_out_is_counted_for_processors_too(spans: Spans, tracer: Tracer) -> None:
    watching = Watching()
    spans.provider.configure(
        spans.all.append, limits=SpanLimits(attributes=2, events=1, links=0, length=1)
    )
    spans.provider.add_span_processor(watching)

    span = tracer.start_span("name", attributes={"a": "long", "b": "long", "c": "long"})
    span.add_event("first")
    span.add_event("second")
    span.add_link(span.get_span_context())
    span.end()
    assert spans.provider.force_flush()

    (shown,) = watching.ended
    assert shown.attributes == {"c": "l", "seen": True}
    assert (shown.dropped_attributes, shown.dropped_events, shown.dropped_links) == (2, 1, 1)


def test_a_processor_hears_of_a_span_when_its_block_begins(spans: Spans, tracer: Tracer) -> None:
    watching = Watching()
    spans.provider.add_span_processor(watching)

    @tracer.start_as_current_span("decorated")
    def decorated() -> None:
        """Nothing."""

    block = tracer.start_as_current_span("block")
    heard_before = list(watching.started)
    decorated()
    with tracer.start_as_current_span("outer") as outer, block as within:
        pass

    assert heard_before == []
    assert watching.started == ["decorated", "outer", "block"]
    assert isinstance(outer, RecordedSpan)
    assert isinstance(within, RecordedSpan)
    assert within.parent_id == outer.span_id


def test_a_started_span_can_be_read_as_the_sdks(spans: Spans, tracer: Tracer) -> None:
    read: list[object] = []

    class Reading(Watching):
        """One written for the SDK's spans."""

        def on_start(self, span: SdkSpan, parent_context: Context | None = None) -> None:
            """Read what they have."""
            scope = span.instrumentation_scope
            assert scope is not None
            read.append((span.resource.attributes["service.name"], scope.name, span.events))
            super().on_start(span, parent_context)

    spans.provider.configure(spans.all.append, resource={"service.name": "program"})
    spans.provider.add_span_processor(Reading())
    tracer.start_span("name").end()

    assert read == [("program", "scope", ())]
    assert spans.provider.resource.attributes["service.name"] == "program"


def test_a_flush_reaches_every_processor_and_nothing_said_means_flushed(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FaultCounter, "__call__", lambda *_: None)
    flushed: list[str] = []

    class Silent(Watching):
        """One that returns nothing, as many do."""

        def force_flush(self, timeout_millis: int = 30000) -> Any:
            """Flush."""
            flushed.append(type(self).__name__)

    class Failing(Silent):
        """One that fails."""

        def force_flush(self, timeout_millis: int = 30000) -> Any:
            """Fail."""
            super().force_flush(timeout_millis)
            raise RuntimeError

    spans.provider.add_span_processor(Silent())
    silent = spans.provider.force_flush()
    spans.provider.add_span_processor(Failing())
    spans.provider.add_span_processor(Silent())
    failing = spans.provider.force_flush()

    assert (silent, failing) == (True, False)
    assert flushed == ["Silent", "Silent", "Failing", "Silent"]


def test_who_shuts_down_twice_waits_once_for_a_receiver_that_hangs(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns, asked = [0], list[float]()

    def hang(timeout_s: float) -> bool:
        asked.append(timeout_s)
        now_ns[0] += int(timeout_s * 1e9)
        return False

    monkeypatch.setattr(recording_provider, "monotonic_ns", lambda: now_ns[0])
    spans.provider.configure(spans.all.append, flush=hang)
    spans.provider.shutdown()
    spans.provider.shutdown()

    assert asked == [3.0, 0.1]


@pytest.mark.parametrize("taken", [True, False])
def test_flushing_the_provider_sends_our_own_spans_too(spans: Spans, *, taken: bool) -> None:
    asked: list[float] = []

    def flush(timeout_s: float) -> bool:
        asked.append(timeout_s)
        return taken

    spans.provider.configure(spans.all.append, flush=flush)
    flushed = spans.provider.force_flush(7000)
    spans.provider.shutdown()

    assert flushed is taken
    assert asked == [7.0, 3.0]


def test_flushing_and_shutting_down_reach_the_programs_processors(
    spans: Spans, tracer: Tracer
) -> None:
    watching = Watching()
    spans.provider.add_span_processor(watching)

    flushed = spans.provider.force_flush(), spans.provider.force_flush(1)
    spans.provider.shutdown()
    tracer.start_span("after").end()

    assert flushed == (True, False)
    assert watching.stopped
    assert watching.started == []
    assert spans.names == ["after"]


# --- the program's own provider


@pytest.fixture
def memory() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def program(memory: InMemorySpanExporter) -> Iterator[TracerProvider]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    yield provider
    provider.shutdown()


def test_behind_the_programs_provider_its_spans_are_made_and_ours_are_not(
    spans: Spans, tracer: Tracer, program: TracerProvider, memory: InMemorySpanExporter
) -> None:
    spans.provider.yield_to(program)

    with tracer.start_as_current_span("with a tracer from before") as span:
        assert get_current_span() is span
        spans.provider.get_tracer("later").start_span("with a later one").end()

    names = [span.name for span in memory.get_finished_spans()]
    assert names == ["with a later one", "with a tracer from before"]
    assert spans.all == []


def test_a_span_of_ours_under_way_keeps_its_children_in_its_trace(
    spans: Spans, tracer: Tracer, program: TracerProvider, memory: InMemorySpanExporter
) -> None:
    with tracer.start_as_current_span("ours") as ours:
        spans.provider.yield_to(program)
        tracer.start_span("the program's").end()

    (child,) = memory.get_finished_spans()
    assert isinstance(ours, RecordedSpan)
    assert child.parent is not None
    assert (child.parent.trace_id, child.parent.span_id) == (ours.trace_id, ours.span_id)
    assert spans.all == [ours]


def test_what_the_program_decorates_goes_on_under_its_own_provider(
    spans: Spans, tracer: Tracer, program: TracerProvider, memory: InMemorySpanExporter
) -> None:
    @tracer.start_as_current_span("name")
    def decorated() -> int:
        return 1

    spans.provider.yield_to(program)

    assert decorated() == 1
    assert [span.name for span in memory.get_finished_spans()] == ["name"]


def test_what_is_decorated_under_the_programs_provider_is_a_span_of_it_each_time(
    spans: Spans, tracer: Tracer, program: TracerProvider, memory: InMemorySpanExporter
) -> None:
    spans.provider.yield_to(program)

    @tracer.start_as_current_span("name")
    def decorated() -> int:
        return 1

    assert (decorated(), decorated()) == (1, 1)
    assert [span.name for span in memory.get_finished_spans()] == ["name", "name"]


def test_ours_again_means_ours_again(
    spans: Spans, tracer: Tracer, program: TracerProvider, memory: InMemorySpanExporter
) -> None:
    spans.provider.yield_to(program)
    spans.provider.yield_to(None)

    tracer.start_span("name").end()

    assert spans.names == ["name"]
    assert memory.get_finished_spans() == ()
