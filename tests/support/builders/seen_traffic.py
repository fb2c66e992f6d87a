"""Requests as pages show them: two services, slow ones, a failed one, tokens, one huge trace."""

from collections.abc import Iterator
from dataclasses import replace

from latencytrace.model import Attributes, Span, SpanKind, StatusCode, semconv
from tests.support.builders.spans.otlp_messages import one_span

MS = 1_000_000
HOSTILE = "<script>alert(1)</script>\u202e</script>\x1b[31m\"'&"
SLOW_TRACE = f"{7:032x}"
FAILED_TRACE = f"{8:032x}"
HUGE_TRACE = f"{9:032x}"
HOSTILE_TRACE = f"{10:032x}"


def span_id(trace_id: str, number: int) -> str:
    """The id of a span of a trace."""
    return f"{int(trace_id, 16) * 1_000_000 + number:016x}"


def chat(
    trace_id: str,
    start_ns: int,
    *,
    search_ms: float = 40,
    decode_ms: float = 300,
    failed: bool = False,
    route: str = "POST /chat",
) -> Iterator[Span]:
    """A chat through a gateway and a service behind it, which searches and generates."""
    at = [round(ms * MS) for ms in (0, 4, 14, 14 + search_ms, 30 + search_ms)]
    prefill_end = at[4] + 60 * MS
    decode_end = prefill_end + round(decode_ms * MS)
    method, path = route.split(" ", 1)

    def made(
        number: int,
        parent: int | None,
        name: str,
        begin: int,
        end: int,
        stage: str | None = None,
        service: str = "rag",
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
    ) -> Span:
        named: Attributes = {semconv.STAGE: stage} if stage else {}
        return replace(
            one_span(
                trace_id,
                span_id(trace_id, number),
                parent_id=None if parent is None else span_id(trace_id, parent),
                name=name,
                kind=kind,
                start_ns=start_ns + begin,
                end_ns=start_ns + end,
                attributes={**named, **(attributes or {})},
            ),
            service=service,
            instance=f"{service}-1",
        )

    http: Attributes = {"http.route": path, "http.request.method": method}
    tokens: Attributes = {
        semconv.GEN_AI_REQUEST_MODEL: "tiny-chat",
        semconv.GEN_AI_USAGE_INPUT_TOKENS: 310,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 42,
    }
    ends = decode_end if not failed else at[3]
    above = [
        made(0, None, route, 0, ends + 12 * MS, None, "gateway", SpanKind.SERVER, http),
        made(1, 0, "POST rag", at[1], ends + 8 * MS, "network", "gateway", SpanKind.CLIENT),
        made(2, 1, route, at[1] + 2 * MS, ends + 6 * MS, None, "rag", SpanKind.SERVER, http),
    ]
    yield made(3, 2, "embed", at[1] + 3 * MS, at[2], "embed")
    search = made(
        4, 2, "search passages", at[2], at[3], "retrieve", attributes={"db.system.name": "qdrant"}
    )
    if failed:
        error: Attributes = {**search.attributes, "error.type": "TimeoutError"}
        yield replace(search, status=StatusCode.ERROR, attributes=error)
        yield from (replace(span, status=StatusCode.ERROR) for span in above)
        return
    yield from (*above, search)
    yield made(5, 2, "generate", at[4], decode_end + 2 * MS, attributes=tokens)
    yield made(6, 5, "prefill", at[4] + MS, prefill_end, "prefill")
    yield made(7, 5, "decode", prefill_end, decode_end, "decode")


def huge(trace_id: str, start_ns: int, count: int) -> Iterator[Span]:
    """A request of so many spans: tools, each with calls below it."""
    each_ns = 2 * MS
    root = one_span(
        trace_id,
        span_id(trace_id, 0),
        name="POST /agent",
        start_ns=start_ns,
        end_ns=start_ns + count * each_ns // 10,
        attributes={"http.route": "/agent", "http.request.method": "POST"},
    )
    yield root
    for number in range(1, count):
        outer = number - (number - 1) % 10
        inner = number - outer
        begin = start_ns + (number - 1) // 10 * each_ns
        yield one_span(
            trace_id,
            span_id(trace_id, number),
            parent_id=span_id(trace_id, outer if inner else 0),
            name=f"call {number}" if inner else f"tool {number // 10}",
            kind=SpanKind.INTERNAL,
            start_ns=begin + inner * each_ns // 11,
            end_ns=begin + (inner + 1) * each_ns // 11 if inner else begin + each_ns,
            attributes={semconv.STAGE: "database" if inner else "tool"},
        )


def hostile(trace_id: str, start_ns: int) -> Iterator[Span]:
    """Names that would act on a page if it let them."""
    root = one_span(
        trace_id,
        span_id(trace_id, 0),
        name=f"POST {HOSTILE}",
        start_ns=start_ns,
        end_ns=start_ns + 90 * MS,
        attributes={"http.route": f"/{HOSTILE}", "http.request.method": "POST"},
    )
    yield replace(root, service=f"svc {HOSTILE}")
    yield replace(
        one_span(
            trace_id,
            span_id(trace_id, 1),
            parent_id=root.span_id,
            name="x" * 10_000 + HOSTILE,
            kind=SpanKind.INTERNAL,
            start_ns=start_ns + MS,
            end_ns=start_ns + 80 * MS,
            attributes={semconv.STAGE: "tool", "note": f"{HOSTILE}{'y' * 5000}"},
        ),
        service=f"svc {HOSTILE}",
    )


def traffic(now_ns: int, count: int = 120) -> Iterator[Span]:
    """An ordinary half hour: of two routes, with a slow stretch, and what tests look for."""
    for number in range(count):
        start_ns = now_ns - (count - number) * 15 * 1000 * MS
        slow = 60 <= number < 72
        yield from chat(
            f"{1000 + number:032x}",
            start_ns,
            search_ms=1500 + 60 * (number % 7) if slow else 30 + 7 * (number % 9),
            decode_ms=220 + 35 * (number * 7 % 11),
            route="POST /chat" if number % 4 else "POST /embed",
        )
    yield from chat(SLOW_TRACE, now_ns - 20_000 * MS, search_ms=4200)
    yield from chat(FAILED_TRACE, now_ns - 15_000 * MS, search_ms=900, failed=True)
