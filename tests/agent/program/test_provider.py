"""A provider that the program sets, before us or after, makes every span; ours stands aside."""

from collections.abc import Callable, Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    NonRecordingSpan,
    ProxyTracerProvider,
    SpanContext,
    get_tracer,
    set_tracer_provider,
)
from opentelemetry.util._once import Once

import latencytrace
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.start import start, uninstrument
from latencytrace.settings import AgentSettings, agent_settings
from tests.support.agent.receiving import Receiver, TracedProgram
from tests.support.servers.nowhere import NOWHERE
from tests.support.waiting import PATIENCE_S, until


@pytest.fixture(autouse=True)
def no_provider_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry takes a provider once a process: begin each test like a new one."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())


@pytest.fixture
def memory() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def program(memory: InMemorySpanExporter) -> Iterator[TracerProvider]:
    """The provider of a program that traces itself."""
    provider = TracerProvider(resource=Resource({"service.name": "the program's"}))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    yield provider
    provider.shutdown()


def names(memory: InMemorySpanExporter) -> list[str]:
    return [span.name for span in memory.get_finished_spans()]


@pytest.mark.parametrize("first", ["the program", "the agent"])
def test_the_programs_provider_wins_and_its_spans_reach_both(
    settings: AgentSettings,
    receiver: Receiver,
    program: TracerProvider,
    memory: InMemorySpanExporter,
    first: str,
) -> None:
    if first == "the program":
        set_tracer_provider(program)
    start(settings, raise_fault)
    if first == "the agent":
        set_tracer_provider(program)
    try:
        with latencytrace.stage("rerank"):
            get_tracer("the program's own").start_span("own").end()
        arrived = TracedProgram(receiver).spans(at_least=2)
    finally:
        uninstrument()

    assert names(memory) == ["own", "rerank"]
    assert sorted(span.name for span in arrived) == ["own", "rerank"]
    assert {span.resource["service.name"] for span in arrived} == {"the program's"}
    assert trace.get_tracer_provider() is program


def test_agent_status_says_whose_provider_makes_the_spans(
    agent: TracedProgram, program: TracerProvider
) -> None:
    before = agent.status.provider
    set_tracer_provider(program)

    assert (before, agent.status.provider) == ("ours", "the program's")


def test_a_tracer_from_before_the_program_set_its_provider_records_into_it(
    agent: TracedProgram, program: TracerProvider, memory: InMemorySpanExporter
) -> None:
    tracer = get_tracer("early")
    early = tracer.start_span("early")
    set_tracer_provider(program)

    tracer.start_span("late").end()
    early.end()

    assert isinstance(early, RecordedSpan)
    assert names(memory) == ["late"]
    assert sorted(span.name for span in agent.spans(at_least=2)) == ["early", "late"]


def test_a_tracer_from_before_the_agent_is_recorded_by_the_agent(settings: AgentSettings) -> None:
    tracer = get_tracer("earliest")
    start(settings, raise_fault)
    try:
        span = tracer.start_span("name")
    finally:
        uninstrument()

    assert isinstance(span, RecordedSpan)


def test_a_second_provider_of_the_program_is_refused_as_without_us(
    agent: TracedProgram, program: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    set_tracer_provider(program)
    set_tracer_provider(TracerProvider())

    assert agent.status.running
    assert trace.get_tracer_provider() is program
    assert "Overriding of current TracerProvider" in caplog.text


def test_after_uninstrument_the_place_is_as_it_was(
    settings: AgentSettings, program: TracerProvider, memory: InMemorySpanExporter
) -> None:
    before = trace._set_tracer_provider
    start(settings, raise_fault)
    ours = trace.get_tracer_provider()
    uninstrument()
    empty = trace.get_tracer_provider()

    set_tracer_provider(program)
    get_tracer("late").start_span("late").end()

    assert trace._set_tracer_provider is before
    assert ours is not empty
    assert isinstance(empty, ProxyTracerProvider)
    assert names(memory) == ["late"]


def test_a_tracer_from_the_agents_time_works_on_under_a_later_provider(
    settings: AgentSettings, program: TracerProvider, memory: InMemorySpanExporter
) -> None:
    start(settings, raise_fault)
    tracer = get_tracer("module of the program")
    uninstrument()
    silent = tracer.start_span("nobody listens")
    set_tracer_provider(program)

    tracer.start_span("name").end()

    assert not silent.is_recording()
    assert names(memory) == ["name"]


def test_instrumenting_again_under_the_programs_provider_feeds_nothing_twice(
    settings: AgentSettings, receiver: Receiver, program: TracerProvider
) -> None:
    set_tracer_provider(program)
    for _ in range(3):
        start(settings, raise_fault)
        uninstrument()
    start(settings, raise_fault)
    try:
        get_tracer("own").start_span("own").end()
        arrived = TracedProgram(receiver).spans(at_least=1)
    finally:
        uninstrument()

    assert [span.name for span in arrived] == ["own"]


def test_after_uninstrument_nothing_of_the_programs_reaches_our_receiver(
    settings: AgentSettings,
    receiver: Receiver,
    program: TracerProvider,
    memory: InMemorySpanExporter,
) -> None:
    set_tracer_provider(program)
    start(settings, raise_fault)
    uninstrument()

    get_tracer("own").start_span("own").end()

    until(lambda: names(memory) == ["own"])
    assert receiver.spans == []


class OtherSpan(NonRecordingSpan):
    """A span that records, which its flag denies."""

    def __init__(self, note: Callable[[], object]) -> None:
        super().__init__(SpanContext(trace_id=7, span_id=8, is_remote=False))
        self._note = note

    def is_recording(self) -> bool:
        """Record in any case."""
        return True

    def end(self, end_time: int | None = None) -> None:
        """Note it."""
        self._note()


class OtherProvider(trace.NoOpTracerProvider):
    """A provider that is not of the SDK, as Instana's: a processor replaces the one it has."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.take: Callable[[str], object] = self.ended.append

    def add_span_processor(self, span_processor: Callable[[str], object]) -> None:
        """Have one that is called, and no other."""
        self.take = span_processor

    def get_tracer(self, *_: object, **__: object) -> trace.Tracer:
        """Return a tracer whose spans go to the one processor."""
        take = self.take

        class OtherTracer(trace.NoOpTracer):
            def start_span(self, name: str, *_: object, **__: object) -> trace.Span:
                return OtherSpan(lambda: take(name))

        return OtherTracer()


@pytest.mark.parametrize("first", ["the program", "the agent"])
def test_a_provider_of_another_kind_makes_its_spans_and_ours_our_own(
    settings: AgentSettings, receiver: Receiver, caplog: pytest.LogCaptureFixture, first: str
) -> None:
    program = OtherProvider()
    if first == "the program":
        set_tracer_provider(program)
    start(settings, raise_fault)
    if first == "the agent":
        set_tracer_provider(program)
    try:
        with trace.use_span(get_tracer("own").start_span("own"), end_on_exit=True):  # noqa: SIM117
            with latencytrace.stage("rerank"):
                pass
        # There may be one more: of an import within.
        (rerank,) = until(lambda: [span for span in receiver.spans if span.name == "rerank"])
    finally:
        uninstrument()

    assert program.ended == ["own"]
    assert rerank.parent_id == f"{8:016x}"
    assert "OtherProvider is not of OpenTelemetry's SDK" in caplog.text


class Standing(trace.NoOpTracerProvider):
    """A provider that stands for one of the SDK, as Logfire's."""

    def __init__(self, provider: TracerProvider) -> None:
        self.provider = provider
        self.get_tracer = provider.get_tracer  # type: ignore[method-assign]
        self.add_span_processor = provider.add_span_processor


def test_a_provider_that_holds_the_sdks_makes_ours(
    settings: AgentSettings,
    receiver: Receiver,
    program: TracerProvider,
    memory: InMemorySpanExporter,
) -> None:
    set_tracer_provider(Standing(program))
    start(settings, raise_fault)
    try:
        with latencytrace.stage("rerank"):
            pass
        arrived = TracedProgram(receiver).spans(at_least=1)
    finally:
        uninstrument()

    assert names(memory) == ["rerank"]
    assert [span.name for span in arrived] == ["rerank"]


def test_an_endpoint_that_raises_after_its_answer_is_no_warning_of_the_programs_sdk(
    settings: AgentSettings, program: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    app = FastAPI()

    @app.get("/boom")
    async def boom() -> None:
        raise LookupError

    set_tracer_provider(program)
    start(settings, raise_fault)
    try:
        answer = TestClient(app, raise_server_exceptions=False).get("/boom")
    finally:
        uninstrument()

    assert answer.status_code == 500
    assert "ended span" not in caplog.text


# --- a receiver that is away, or answers late


@pytest.fixture
def nobody_listens(program: TracerProvider) -> Iterator[None]:
    set_tracer_provider(program)
    start(agent_settings(endpoint=NOWHERE, environ={}), raise_fault)
    yield
    uninstrument()


@pytest.mark.usefixtures("nobody_listens")
def test_a_flush_that_nobody_takes_says_so_and_the_spans_wait() -> None:
    get_tracer("own").start_span("own").end()

    assert not latencytrace.flush(PATIENCE_S)

    status = latencytrace.agent_status()
    assert (status.spans_made, status.spans_sent, status.spans_queued) == (1, 0, 1)
    assert status.last_error is not None


@pytest.mark.usefixtures("nobody_listens")
def test_the_programs_own_flush_does_not_fail_for_our_receiver(program: TracerProvider) -> None:
    get_tracer("own").start_span("own").end()

    assert program.force_flush()


def test_what_finds_no_place_meanwhile_is_counted(program: TracerProvider) -> None:
    set_tracer_provider(program)
    start(agent_settings(endpoint=NOWHERE, environ={"OTEL_BSP_MAX_QUEUE_SIZE": "10"}), raise_fault)
    try:
        for _ in range(25):
            get_tracer("own").start_span("own").end()
        latencytrace.flush(PATIENCE_S)
        status = latencytrace.agent_status()
    finally:
        uninstrument()

    assert status.spans_dropped + status.spans_queued == 25
    assert status.spans_queued <= 10 + 10  # those on their way are no longer in the queue


def test_a_flush_that_is_over_too_late_says_so_and_the_spans_arrive(
    agent: TracedProgram, receiver: Receiver, program: TracerProvider
) -> None:
    set_tracer_provider(program)
    receiver.release.clear()
    get_tracer("own").start_span("own").end()
    until(lambda: agent.status.spans_queued == 1)

    in_time = latencytrace.flush(0.0)

    receiver.release.set()
    assert not in_time
    assert agent.one("own").scope == "own"
