"""FastAPI's own telemetry beside ours: spans are made where somebody asked for them."""

from collections.abc import Iterator

import fastapi
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once

from latencytrace.agent.guard import raise_fault
from latencytrace.agent.start import start, uninstrument
from latencytrace.settings import agent_settings
from tests.support.agent.receiving import Receiver, TracedProgram
from tests.support.servers.serving import get, serving

telemetry = pytest.importorskip("fastapi.telemetry._asgi")  # of recent versions


@pytest.fixture
def no_provider_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry takes a provider once a process: begin like a new one."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())


@pytest.fixture
def without_hooks(receiver: Receiver) -> Iterator[TracedProgram]:
    """This process with the agent and no hook."""
    settings = agent_settings(
        endpoint=receiver.endpoint,
        service_name="program",
        hooks=(),
        environ={"OTEL_BSP_SCHEDULE_DELAY": "20"},
    )
    start(settings, raise_fault)
    try:
        yield TracedProgram(receiver)
    finally:
        uninstrument()


def application(**options: object) -> fastapi.FastAPI:
    app = fastapi.FastAPI(**options)  # type: ignore[arg-type] # as the caller says

    @app.get("/")
    async def index() -> str:
        return "here"

    return app


def test_where_the_hooks_are_off_it_makes_no_spans_through_our_provider(
    without_hooks: TracedProgram,
) -> None:
    with serving(application()) as url:
        assert get(f"{url}/").status == 200

    assert without_hooks.spans() == []


@pytest.fixture
def memory() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(memory: InMemorySpanExporter) -> Iterator[TracerProvider]:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(memory))
    yield made
    made.shutdown()


def test_a_provider_that_the_program_names_for_it_gets_its_spans(
    without_hooks: TracedProgram, provider: TracerProvider, memory: InMemorySpanExporter
) -> None:
    with serving(application(telemetry={"tracer_provider": provider})) as url:
        assert get(f"{url}/").status == 200

    assert "GET /" in [span.name for span in memory.get_finished_spans()]
    assert without_hooks.spans() == []


def test_a_provider_that_the_program_has_opentelemetry_return_gets_its_spans(
    agent: TracedProgram,
    provider: TracerProvider,
    memory: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)

    with serving(application()) as url:
        assert get(f"{url}/").status == 200

    assert "GET /" in [span.name for span in memory.get_finished_spans()]
    assert "GET /" in [span.name for span in agent.spans()]


@pytest.mark.usefixtures("no_provider_yet")
def test_where_it_exports_by_itself_its_receiver_gets_its_spans_at_the_end_of_the_application(
    agent: TracedProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver() as theirs:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{theirs.url}/v1/traces")
        with serving(application(telemetry={"auto_configure": True})) as url:
            assert get(f"{url}/").status == 200

        names = [span.name for span in theirs.spans if span.scope == "fastapi"]

    assert "GET /" in names
    assert "GET /" in [span.name for span in agent.spans()]


def test_it_is_the_very_same_afterwards(receiver: Receiver) -> None:
    before = telemetry._unconfigured, telemetry.NativeTelemetry.__call__
    settings = agent_settings(endpoint=receiver.endpoint, service_name="program", environ={})

    start(settings, raise_fault)
    patched = telemetry._unconfigured
    uninstrument()

    assert patched is not before[0]
    assert (telemetry._unconfigured, telemetry.NativeTelemetry.__call__) == before
