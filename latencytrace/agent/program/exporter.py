"""Spans of the program's own tracer provider, sent by a sender of ours."""

from collections.abc import Callable, Mapping, Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SpanExporter,
    SpanExportResult,
)

from latencytrace.agent.export.transport import Sender
from latencytrace.agent.guard import logger
from latencytrace.agent.process.forks import whole_imports


class ProgramExporter(SpanExporter):
    """Hands batches of the SDK's spans to a sender, once."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        with whole_imports.lock:
            from opentelemetry.exporter.otlp.proto.common.trace_encoder import (  # noqa: PLC0415 - takes a while
                encode_spans,
            )

        try:
            response = self._sender.send(encode_spans(spans).SerializeToString())
        except OSError as error:
            logger.warning("latencytrace: %d spans are lost: %s", len(spans), error)
            return SpanExportResult.FAILURE
        if response.status != 200:  # noqa: PLR2004 - HTTP's OK
            logger.warning("latencytrace: %d spans are lost: %s", len(spans), response.reason)
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Let go of the connection."""
        self._sender.close()


def program_exporter(
    url: str, headers: Mapping[str, str], grpc_sender: Callable[[], Sender] | None
) -> SpanExporter:
    """Return what carries away the spans of the program's own provider.

    Args:
        url: Where traces are posted.
        headers: Of each request.
        grpc_sender: Makes a sender of ours; None: the SDK's exporter posts them over HTTP.
    """
    if grpc_sender is not None:
        return ProgramExporter(grpc_sender())
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - only where it is used
        OTLPSpanExporter,
    )

    return OTLPSpanExporter(endpoint=url, headers=dict(headers))


def program_processor(
    url: str,
    headers: Mapping[str, str],
    grpc_sender: Callable[[], Sender] | None,
    interval_s: float,
) -> BatchSpanProcessor:
    """Return what the program's own provider hands its spans to; see `program_exporter`."""
    exporter = program_exporter(url, headers, grpc_sender)
    return BatchSpanProcessor(exporter, schedule_delay_millis=interval_s * 1000)
