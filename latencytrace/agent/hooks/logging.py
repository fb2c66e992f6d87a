"""The trace, span and service of the code that logs, on each record, where settings ask for it."""

from functools import wraps
from logging import LogRecord
from typing import Any

from opentelemetry.trace import (
    format_span_id,
    format_trace_id,
    get_current_span,
    get_tracer_provider,
)

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, HookOptions, Patch, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.model import semconv


def note_span(recorder: Recorder, original: Timed) -> Timed:
    """Put the current span's ids on a record, by the names of OpenTelemetry's instrumentation."""

    @wraps(original)
    def makeRecord(self: object, *args: Any, **kwargs: Any) -> LogRecord:  # noqa: N802
        record: LogRecord = original(self, *args, **kwargs)
        with guarded("noting a span on a log record", recorder.on_fault):
            context = get_current_span().get_span_context()
            noted = record.__dict__
            if context.is_valid:
                noted["otelTraceID"] = format_trace_id(context.trace_id)
                noted["otelSpanID"] = format_span_id(context.span_id)
                noted["otelTraceSampled"] = context.trace_flags.sampled
            else:  # for formats that name them
                noted["otelTraceID"] = noted["otelSpanID"] = "0"
                noted["otelTraceSampled"] = False
            resource = getattr(get_tracer_provider(), "resource", None)
            noted["otelServiceName"] = (
                resource.attributes.get(semconv.SERVICE_NAME, "") if resource else ""
            )
        return record

    return makeRecord


class LoggingHook(Hook):
    """Patches what makes the records of every logger."""

    patches = (Replacement("logging", "Logger.makeRecord", note_span),)

    @classmethod
    def table(cls, options: HookOptions) -> tuple[Patch | Replacement, ...]:
        """Nothing, unless it was asked for."""
        return cls.patches if options.log_correlation else ()
