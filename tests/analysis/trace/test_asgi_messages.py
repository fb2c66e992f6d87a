"""What contrib's ASGI spans of messages cost a request; truth in ms."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.columns.compiled.core import core
from latencytrace.analysis.ledger.critical_path import critical_path, stage_times
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import FirstTokenOf, Span, Stage, semconv
from latencytrace.model.request import ledger_of
from tests.support.builders.spans.recorded import recorded_requests, reported, spans_of
from tests.support.builders.spans.span_columns import SpanColumns, critical_paths
from tests.support.builders.spans.trees import request, root, span
from tests.support.servers.serving import serving

CONTRIB = "opentelemetry.instrumentation.fastapi"


def message(name: str, start_ns: int, end_ns: int, event: str | None = None) -> Span:
    """One of contrib's spans; a listener that was cancelled tells no event."""
    attributes = {} if event is None else {semconv.ASGI_EVENT_TYPE: event}
    named = f"POST /chat http {name}"
    made = span(named, start_ns, end_ns, attributes=attributes)
    return Span(
        trace_id=made.trace_id,
        span_id=f"{name} at {start_ns}",
        parent_id=made.parent_id,
        name=named,
        kind=made.kind,
        service=made.service,
        scope=CONTRIB,
        start_ns=start_ns,
        end_ns=end_ns,
        attributes=attributes,
    )


def send(start_ns: int, end_ns: int) -> Span:
    return message("send", start_ns, end_ns, "http.response.body")


def ledger(*below: Span) -> Mapping[Stage, int]:
    """Of a request that took 1 000, by both forms of the rule, if both are there."""
    trace = request(*below, end_ns=1_000)
    segments = critical_path(trace)
    assert core is None or critical_paths(SpanColumns.of([trace])) == [segments]
    return ledger_of(segments)


DECODE = span("decode", 0, 990, stage=Stage.DECODE)
SLOW = [send(20 * chunk, 20 * chunk + 16) for chunk in range(50)]  # 16 of each 20 blocked


def test_a_slow_caller_wins_over_the_decoding_that_covers_the_stream() -> None:
    assert ledger(DECODE, *SLOW) == {Stage.RESPOND: 800, Stage.DECODE: 196, Stage.UNATTRIBUTED: 4}


def test_a_send_inside_the_decoding_wins_over_what_lies_below_that() -> None:
    inside = span("POST /chat http send", 100, 300, parent="decode")
    step = span("step", 50, 400, parent="decode", stage=Stage.FORWARD)

    found = ledger(DECODE, inside, step)

    assert (found[Stage.RESPOND], found[Stage.FORWARD], found[Stage.DECODE]) == (200, 150, 640)


def test_blocked_time_is_counted_once() -> None:
    times = stage_times(request(DECODE, *SLOW, end_ns=1_000))

    assert (times[Stage.RESPOND].busy_ns, times[Stage.RESPOND].exclusive_ns) == (800, 800)


def test_the_messages_are_shown_as_long_as_they_were() -> None:
    (trace,) = build_traces([root(1_000), DECODE, *SLOW])

    assert [trace.unclipped[one.span_id] for one in SLOW] == SLOW


@pytest.mark.parametrize("event", ["http.disconnect", None], ids=["heard", "cancelled"])
def test_listening_for_the_hang_up_costs_nothing_though_it_ends_last(event: str | None) -> None:
    body = message("receive", 0, 40, "http.request")
    listening = message("receive", 40, 999, event)
    decode = span("decode", 40, 900, stage=Stage.DECODE)

    found = ledger(body, listening, decode)

    assert found == {Stage.NETWORK: 40, Stage.DECODE: 860, Stage.UNATTRIBUTED: 100}


def test_a_recorded_stream_to_a_slow_caller_is_mostly_answering() -> None:
    """Beside a covering `decode`, contrib's sends of 0.48b0 lasted as long as they blocked."""
    streamed, _ = recorded_requests("contrib_asgi")
    truth_ns = reported("contrib_asgi")["blocked_ns"]

    assert truth_ns > streamed.duration_ns / 2
    assert streamed.ledger[Stage.RESPOND] == pytest.approx(truth_ns, rel=0.02)


def streaming_application(tracer: Tracer) -> FastAPI:
    application = FastAPI()

    @application.post("/chat")
    async def chat(asked: Request) -> StreamingResponse:
        await asked.body()

        async def chunks() -> AsyncIterator[bytes]:
            with tracer.start_as_current_span("decode"):
                for _ in range(5):
                    await asyncio.sleep(0.01)
                    yield b"token "

        return StreamingResponse(chunks())

    return application


def test_contribs_listener_of_a_real_stream_costs_nothing() -> None:
    """With the instrumentation that is installed, whose sends no longer last as they block."""
    ended = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": "chat"}))
    provider.add_span_processor(SimpleSpanProcessor(ended))
    application = streaming_application(provider.get_tracer("model"))
    FastAPIInstrumentor.instrument_app(application, tracer_provider=provider)
    with serving(application) as address:
        assert httpx.post(f"{address}/chat", content=b"{}", trust_env=False).is_success

    message_ = encode_spans(ended.get_finished_spans())
    spans = [one for resource in message_.resource_spans for one in spans_of(resource)]
    listening = [
        one.span_id
        for one in spans
        if one.name.endswith("http receive")
        and one.attributes.get(semconv.ASGI_EVENT_TYPE) != "http.request"
    ]
    (found,) = requests_of(spans, {})
    assert len(listening) == 1
    assert listening[0] not in {segment.span_id for segment in found.segments}
    assert Stage.DECODE in found.ledger
    assert found.time_to_first_token_of is FirstTokenOf.CALLER
    assert 0.005 < (found.time_to_first_token_ns or 0) / 1e9 < found.duration_ns / 1e9 - 0.03
