"""The agent on in this process, sending to a real receiver, off again after each test."""

from collections.abc import Iterator

import pytest

from latencytrace.agent.guard import raise_fault
from latencytrace.agent.start import start, uninstrument
from latencytrace.settings import AgentSettings, agent_settings
from tests.support.agent.hooked import Spans
from tests.support.agent.receiving import Receiver, TracedProgram


@pytest.fixture
def spans() -> Spans:
    """Spans of a tracer of the test's own, with no hook applied."""
    return Spans()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """An OTLP receiver."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def settings(receiver: Receiver) -> AgentSettings:
    """Settings of an agent that sends to the receiver, often."""
    return agent_settings(
        endpoint=receiver.endpoint,
        service_name="program",
        environ={"OTEL_BSP_SCHEDULE_DELAY": "20", "LATENCYTRACE_OVERHEAD": "off"},
    )


@pytest.fixture
def agent(receiver: Receiver, settings: AgentSettings) -> Iterator[TracedProgram]:
    """This process with every hook applied."""
    start(settings, raise_fault)
    try:
        yield TracedProgram(receiver)
    finally:
        uninstrument()
