"""Trace and span ids on log records, with the real `logging`."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry.trace import format_span_id, format_trace_id

from latencytrace.agent.guard import raise_fault
from latencytrace.agent.hooks.logging import LoggingHook
from latencytrace.agent.start import start, uninstrument
from latencytrace.agent.timing.hook import HookOptions
from latencytrace.agent.timing.patching import AppliedHook
from latencytrace.settings import agent_settings
from tests.support.agent.hooked import Spans
from tests.support.agent.receiving import Receiver

FORMAT = logging.Formatter("%(otelTraceID)s %(otelSpanID)s %(otelTraceSampled)s %(message)s")
logger = logging.getLogger("a program")


@contextmanager
def correlated() -> Iterator[Spans]:
    spans = Spans()
    hook = AppliedHook("logging", LoggingHook, spans.recorder, HookOptions(log_correlation=True))
    try:
        yield spans
    finally:
        hook.restore()


def test_a_record_carries_the_span_that_it_was_logged_in(caplog: pytest.LogCaptureFixture) -> None:
    with correlated() as spans, spans.recorder.tracer.start_as_current_span("request") as span:
        logger.warning("slow: %d ms", 7)

    context = span.get_span_context()
    ids = f"{format_trace_id(context.trace_id)} {format_span_id(context.span_id)}"
    assert FORMAT.format(caplog.records[0]) == f"{ids} True slow: 7 ms"


def test_outside_of_any_span_a_format_still_finds_its_names(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with correlated():
        logger.warning("starting")

    assert FORMAT.format(caplog.records[0]) == "0 0 False starting"


def test_a_format_written_for_opentelemetrys_instrumentation_finds_the_service(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    settings = agent_settings(
        endpoint=receiver.endpoint,
        service_name="rag",
        hooks=("logging",),
        environ={"OTEL_PYTHON_LOG_CORRELATION": "true"},
    )
    start(settings, raise_fault)
    try:
        logger.warning("slow")
    finally:
        uninstrument()

    assert logging.Formatter("%(otelServiceName)s").format(caplog.records[0]) == "rag"


def test_what_a_program_puts_on_a_record_stays(caplog: pytest.LogCaptureFixture) -> None:
    with correlated():
        logger.warning("slow", extra={"tenant": "acme"}, stacklevel=1)

    (record,) = caplog.records
    assert vars(record)["tenant"] == "acme"
    assert record.funcName == "test_what_a_program_puts_on_a_record_stays"


def test_it_is_off_unless_it_was_asked_for() -> None:
    assert LoggingHook.table(HookOptions()) == ()
