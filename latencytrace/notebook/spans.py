"""The spans that end while a cell runs."""

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from latencytrace.agent.start import agent_status, flush, instrument, uninstrument
from latencytrace.model import Span
from latencytrace.notebook.receiver import Receiver
from latencytrace.service.otlp.block_builder import span_block_of
from latencytrace.service.otlp.messages import purify
from latencytrace.settings import agent_settings, names_receiver

MOST_SPANS = 50_000  # of a cell; more are counted
MOST_BYTES = 64 * 1024 * 1024  # of their posts
FLUSH_S = 30.0  # it ends sooner: whatever is sent is sent once
NAME = "notebook"  # of the program, unless OTEL_SERVICE_NAME says another


class CellSpans:
    """Takes what the agent sends, or, where it sends to a service, what it shows processors."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._posts: list[ExportTraceServiceRequest] = []
        self._bytes = 0
        self._ended: list[ReadableSpan] = []
        self._left_out = 0  # posts and spans beyond the bounds
        self._aside: dict[str, list[Span]] = {}
        self._aside_left_out = 0
        self._receiver: Receiver | None = None
        self._tap: _Tap | None = None
        self._tapped: object = None  # the provider that shows us its spans
        self._is_ours = not agent_status().running
        if self._is_ours:
            self._start_agent()

    def set_aside(self) -> None:
        """Keep spans that have ended until the next call takes them."""
        found, self._aside_left_out = self.take(with_aside=True)
        self._aside, kept = {}, 0
        for trace_id, spans in found.items():
            if kept + len(spans) > MOST_SPANS:
                self._aside_left_out += len(spans)
                continue
            self._aside[trace_id] = list(spans)
            kept += len(spans)

    def take(self, *, with_aside: bool = False) -> tuple[Mapping[str, Sequence[Span]], int]:
        """Return what has ended since the last call, by trace id, and how much did not fit.

        Args:
            with_aside: Put what was set aside in front.
        """
        self._flush()
        with self._lock:
            posts, ended, left_out = self._posts, self._ended, self._left_out
            self._posts, self._ended, self._bytes, self._left_out = [], [], 0, 0
        if ended:
            posts.append(encode_spans(ended))
        found: defaultdict[str, list[Span]] = defaultdict(list)
        if with_aside:
            found.update(self._aside)
            left_out += self._aside_left_out
            self._aside, self._aside_left_out = {}, 0
        for message in posts:
            purify(message, capture_content=False)
            for span in span_block_of(message).spans():
                found[span.trace_id].append(span)
        return found, left_out

    def close(self) -> None:
        """Take no more, and end the agent that was started for it."""
        if self._tap is not None:
            self._tap.take = None
        if self._is_ours:
            uninstrument()
        if self._receiver is not None:
            self._receiver.close()

    def _start_agent(self) -> None:
        if not names_receiver():
            self._receiver = Receiver(self._take_post)
        instrument(
            agent_settings(over_http=True).service_name or NAME,
            endpoint=None if self._receiver is None else self._receiver.endpoint,
        )

    def _flush(self) -> None:
        if self._receiver is not None:
            flush(FLUSH_S)
            return
        provider = trace.get_tracer_provider()
        if provider is not self._tapped and isinstance(provider, _Provider):
            if self._tap is not None:
                self._tap.take = None
            self._tap, self._tapped = _Tap(self), provider
            provider.add_span_processor(self._tap)
        flush(0)  # ends what is pending, without waiting for a receiver

    def _take_post(self, message: ExportTraceServiceRequest) -> None:
        size = message.ByteSize()
        with self._lock:
            if self._bytes + size > MOST_BYTES:
                self._left_out += 1
                return
            self._bytes += size
            self._posts.append(message)

    def take_span(self, span: ReadableSpan) -> None:
        with self._lock:
            if len(self._ended) >= MOST_SPANS:
                self._left_out += 1
            else:
                self._ended.append(span)


@runtime_checkable
class _Provider(Protocol):
    """A tracer provider that shows its spans."""

    def add_span_processor(self, span_processor: SpanProcessor) -> None: ...


class _Tap(SpanProcessor):
    """Hands on each span that ends; a provider keeps its processors, so it can be emptied."""

    def __init__(self, cell: CellSpans) -> None:
        self.take: CellSpans | None = cell

    def on_end(self, span: ReadableSpan) -> None:
        if self.take is not None:
            self.take.take_span(span)
