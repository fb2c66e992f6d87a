"""Traces made at random, most of them as usual ones are, some with every fault there is."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import NamedTuple

from latencytrace.model import (
    AttributeValue,
    Event,
    Interval,
    Link,
    Span,
    SpanKind,
    Stage,
    StatusCode,
    pack_intervals,
    semconv,
)
from latencytrace.model.packed import RuntimeGap, pack_named

Attributes = dict[str, AttributeValue]

BEGIN_NS = 1_700_000_000_000_000_000
SERVICES = ("gateway", "rag", "vectors")
STEPS = ("raw_gen_ai_request", "decode_loop", "llm_request")
MESSAGES = ("POST /chat http send", "POST /chat http receive", "GET /ws websocket send")
NAMES = ("prefill", "decode", "search", "load", "work", "work", "work", *MESSAGES, *STEPS)
SCOPES = ("latencytrace", "opentelemetry.instrumentation.asgi", "mine", "")
ENGINES = ("vllm", "litellm", "sglang", "langfuse", "trt.llm")
FAULTS_OF_TEN = 3  # of so many of ten traces


def made_trace(random: Random, number: int = 1) -> list[Span]:
    """One trace, in any order.

    Times are few and small in half of them, so that spans touch, tie and contain each other.
    """
    unit_ns = random.choice((1, 1, 1_000, 1_000_003))
    begin_ns = random.choice((0, BEGIN_NS))
    spans = [_root(random, number, begin_ns, begin_ns + random.randint(0, 60) * unit_ns)]
    while len(spans) < random.choice((1, 4, 12, 12, 20, 45)):
        parent = random.choice(spans[-6:])
        spans.append(_below(random, len(spans) + 1, parent, unit_ns))
    if random.randrange(10) < FAULTS_OF_TEN:
        for _ in range(random.randint(1, 2)):
            random.choice(FAULTS)(random, spans)
    ids = [f"{random.getrandbits(63) * 2 + 1:016x}" for _ in spans]
    if random.random() < 0.5:  # else ids in order of making, which ties show
        renamed = {span.span_id: id_ for span, id_ in zip(spans, ids, strict=True)}
        spans = [
            replace(
                span,
                span_id=renamed[span.span_id],
                parent_id=renamed.get(span.parent_id or "", span.parent_id),
            )
            for span in spans
        ]
    random.shuffle(spans)
    return spans


class _Call(NamedTuple):
    """The two ends of a call by one protocol."""

    kind: SpanKind
    name: str
    attributes: Attributes
    answers: Attributes


_CALLS = (
    _Call(
        SpanKind.CLIENT, "GET", {semconv.HTTP_REQUEST_METHOD: "GET"},
        {semconv.HTTP_ROUTE: "/search", semconv.HTTP_REQUEST_METHOD: "GET"},
    ),
    _Call(
        SpanKind.CLIENT, "rag.Search/Find", {semconv.RPC_SYSTEM_NAME: "grpc"},
        {semconv.RPC_SYSTEM_NAME: "grpc", semconv.RPC_GRPC_STATUS_CODE_OLD: 0},
    ),
    _Call(
        SpanKind.CLIENT, "query", {semconv.DB_SYSTEM_NAME: "qdrant"},
        {semconv.RPC_SYSTEM_NAME: "grpc"},
    ),
    _Call(
        SpanKind.CLIENT, "chat llama",
        {semconv.GEN_AI_OPERATION_NAME: "chat", semconv.GEN_AI_USAGE_INPUT_TOKENS: 30},
        {semconv.HTTP_ROUTE: "/v1/chat", semconv.STREAMED_EVENTS: 7},
    ),
    _Call(SpanKind.PRODUCER, "publish", {}, {}),
    _Call(SpanKind.INTERNAL, "in-process", {}, {}),
)  # fmt: skip
_ENDS = (StatusCode.UNSET, StatusCode.UNSET, StatusCode.OK, StatusCode.ERROR)
_PLACES = tuple(
    (service, instance, host)
    for service in (*SERVICES, "model")
    for instance, host in (("one", "here"), ("two", "there"), ("three", None), (None, "there"))
)


def made_calls(random: Random, number: int = 1) -> list[Span]:
    """Services that call each other over several protocols, each host by a clock of its own.

    Most go by columns: nothing of these is to be mended but clocks, and spans that stick out.
    """
    unit_ns = random.choice((1, 1_000, 1_000_003))
    off_ns: dict[tuple[str, str], int] = defaultdict(
        lambda: random.choice((0, 0, 0, 1, -3, 20)) * unit_ns
    )
    of_host = random.random() < 0.5
    root = _root(random, number, BEGIN_NS, BEGIN_NS + random.randint(20, 400) * unit_ns)
    spans = [replace(root, parent_id=None, name="POST /chat", kind=SpanKind.SERVER)]
    ends = [(spans[0], 0)]  # spans that may do more, and how deep they lie
    while len(spans) < random.choice((3, 8, 20, 40)):
        parent, depth = random.choice(ends[-5:])
        work = _inside(random, parent, len(spans) + 1, unit_ns)
        spans.append(work)
        if random.random() < 0.4 or depth > 5:
            ends.append((work, depth))
            continue
        call = random.choice(_CALLS)
        caller = replace(
            work,
            kind=call.kind,
            name=call.name,
            attributes={**work.attributes, **call.attributes},
            status=StatusCode.ERROR if random.random() < 0.02 else StatusCode.UNSET,
        )
        spans[-1] = caller
        if random.random() < 0.3:  # as a library of HTTP below one of models
            inner = _inside(random, caller, len(spans) + 1, unit_ns)
            caller = replace(inner, kind=SpanKind.CLIENT, name="POST", status=caller.status)
            spans.append(caller)
        if random.random() < 0.2 or call.kind is SpanKind.PRODUCER:
            continue  # whoever answers is not traced, or in a trace of its own
        service, instance, host = random.choice(_PLACES)
        answer = replace(
            _inside(random, caller, len(spans) + 1, unit_ns),
            service=service,
            instance=instance,
            host=host if of_host else None,
            scope="latencytrace",
            kind=SpanKind.SERVER,
            status=random.choice(_ENDS),
        )
        late_ns = random.choice((0, 0, 0, 5, 500)) * unit_ns  # a stream that its caller left
        more = call.answers | _some(random, ROOT_ATTRIBUTES, answer.start_ns, 0.1)
        answer = replace(
            answer, end_ns=answer.end_ns + late_ns, attributes={**answer.attributes, **more}
        )
        spans.append(answer)
        if random.random() < 0.3:
            spans += _messages(random, answer, len(spans) + 1)
        ends.append((answer, depth + 1))
    moved = [
        replace(
            span,
            start_ns=span.start_ns + off_ns[span.clock],
            end_ns=span.end_ns + off_ns[span.clock],
        )
        for span in spans
    ]
    if random.random() < 0.1:
        moved.pop(random.randrange(len(moved)))
    random.shuffle(moved)
    return moved


def made_attempts(random: Random, number: int = 1) -> list[Span]:
    """Calls that fail and are made again, beside and below each other, with work below them."""
    spans = random.choice((made_trace, made_calls, made_calls))(random, number)
    for _ in range(random.randint(1, 8)):
        at = random.randrange(len(spans))
        if spans[at].parent_id is None or spans[at].end_ns < spans[at].start_ns:
            continue
        call = replace(
            spans[at],
            kind=SpanKind.CLIENT,
            attributes={**spans[at].attributes, semconv.SERVER_ADDRESS: random.choice("ab")},
        )
        spans[at] = attempt = _ended(random, call, 0)
        unit_ns = random.choice((1, 1_000, max((call.end_ns - call.start_ns) // 3, 1)))
        for count in range(1, random.randint(2, 5)):
            spans += _work_beside(random, attempt, unit_ns)
            start_ns = max(attempt.end_ns + random.choice((0, 0, 1, 2, -1)) * unit_ns, 0)
            again = replace(
                call, span_id=_any_id(random), start_ns=start_ns,
                end_ns=start_ns + random.choice((0, 1, 3, 3)) * unit_ns,
            )  # fmt: skip
            attempt = _ended(random, again, count)
            spans.append(attempt)
    random.shuffle(spans)
    return spans


def _ended(random: Random, call: Span, count: int) -> Span:
    """An attempt at a call, failed most of the time; maybe with its client's count."""
    code = random.choice((200, 404, 429, 503, 503, 503))
    counted = {semconv.HTTP_REQUEST_RESEND_COUNT: count} if count and random.random() < 0.3 else {}
    return replace(
        call,
        status=StatusCode.ERROR if random.random() < 0.3 else call.status,
        attributes={**call.attributes, semconv.HTTP_RESPONSE_STATUS_CODE: code, **counted},
    )


def _work_beside(random: Random, attempt: Span, unit_ns: int) -> list[Span]:
    """Some work below an attempt and beside it."""
    below = replace(_inside(random, attempt, 0, unit_ns), span_id=_any_id(random))
    beside = replace(
        _inside(random, attempt, 0, unit_ns),
        span_id=_any_id(random),
        parent_id=attempt.parent_id,
        start_ns=attempt.end_ns,
        end_ns=attempt.end_ns + unit_ns,
    )
    return [one for one in (below, beside) if random.random() < 0.5]


def _any_id(random: Random) -> str:
    return f"{random.getrandbits(63) * 2 + 1:016x}"


def _messages(random: Random, answer: Span, number: int) -> list[Span]:
    """The messages that an application sends, as contrib's middleware sees them."""
    edges = (answer.start_ns, answer.end_ns)
    times = sorted(random.randint(*edges) for _ in range(2 * random.randint(1, 6)))
    sent = ("http.response.start", *["http.response.body"] * (len(times) // 2))
    parents = [answer.span_id] * 3 + [f"{number - back:016x}" for back in (1, 2)]
    return [
        Span(
            trace_id=answer.trace_id,
            span_id=f"{number + place:016x}",
            parent_id=random.choice(parents),
            name=MESSAGES[0],
            service=answer.service,
            instance=answer.instance,
            host=answer.host,
            scope="opentelemetry.instrumentation.asgi",
            start_ns=start_ns,
            end_ns=end_ns,
            attributes={semconv.ASGI_EVENT_TYPE: event},
        )
        for place, (start_ns, end_ns, event) in enumerate(
            zip(times[::2], times[1::2], sent, strict=False)
        )
    ]


def _inside(random: Random, parent: Span, number: int, unit_ns: int) -> Span:
    """A span within another, of the same process."""
    edges = (parent.start_ns, parent.end_ns)
    times = sorted(random.choice((random.randint(*edges), *edges)) for _ in range(2))
    length_ns = times[1] - times[0]
    steps = sorted(random.randint(0, length_ns) for _ in range(2 * random.choice((0, 0, 1, 3))))
    packed = [
        Interval(stage=random.choice(list(Stage)), start_ns=times[0] + a, end_ns=times[0] + b)
        for a, b in zip(steps[::2], steps[1::2], strict=True)
    ]
    gaps = {"garbage_collection": [(one.start_ns, one.end_ns) for one in packed[:2]]}
    attributes: Attributes = {}
    if packed:
        attributes[semconv.INTERVALS] = pack_intervals(packed, times[0])
    if packed and random.random() < 0.3:
        attributes[semconv.RUNTIME_GAPS] = pack_named(gaps, times[0])
    stage = random.choice((None, None, *map(str, Stage)))
    if stage is not None:
        attributes[semconv.STAGE] = stage
    return Span(
        trace_id=parent.trace_id,
        span_id=f"{number:016x}",
        parent_id=parent.span_id,
        name=random.choice(NAMES),
        kind=SpanKind.INTERNAL,
        service=parent.service,
        instance=parent.instance,
        host=parent.host,
        scope=random.choice(SCOPES),
        start_ns=times[0],
        end_ns=times[1] + random.choice((0, 0, 0, unit_ns)),
        status=random.choice(_ENDS),
        attributes=attributes | _some(random, ATTRIBUTES, times[0], 0.03),
        events=_events(random, times[0]),
    )


def _root(random: Random, number: int, start_ns: int, end_ns: int) -> Span:
    kind = random.choice((SpanKind.SERVER, SpanKind.SERVER, SpanKind.SERVER, SpanKind.INTERNAL))
    return Span(
        trace_id=f"{number:032x}",
        span_id=f"{1:016x}",
        parent_id=None if random.random() < 0.9 else f"{0xFFFF:016x}",
        name=random.choice(("POST /chat", "GET", "GET /health", "decode")),
        kind=kind if random.random() < 0.9 else SpanKind.CLIENT,
        service=random.choice(SERVICES[:2]),
        instance=random.choice((None, "one", "two")),
        host=random.choice((None, "here")),
        version=random.choice((None, "1.2")),
        scope=random.choice(("latencytrace", "latencytrace", "opentelemetry.instrumentation", "")),
        start_ns=start_ns,
        end_ns=end_ns,
        status=random.choice((StatusCode.UNSET, StatusCode.OK, StatusCode.ERROR)),
        attributes=_some(random, ROOT_ATTRIBUTES, start_ns, 0.3) | _usual(random, start_ns),
    )


def _below(random: Random, number: int, parent: Span, unit_ns: int) -> Span:
    length_ns = parent.end_ns - parent.start_ns
    if random.random() < 0.75:  # within its parent
        times = sorted(random.randint(0, length_ns) for _ in range(2))
        start_ns, end_ns = parent.start_ns + times[0], parent.start_ns + times[1]
        if random.random() < 0.2:
            start_ns = parent.start_ns
        if random.random() < 0.2:
            end_ns = parent.end_ns
    else:
        start_ns = max(parent.start_ns + random.randint(-4, 50) * unit_ns, 0)
        end_ns = start_ns + random.randint(0, 40) * unit_ns
    elsewhere = random.random() < 0.15
    service = random.choice(SERVICES) if elsewhere else parent.service
    kind = random.choice((SpanKind.INTERNAL, SpanKind.INTERNAL, SpanKind.CLIENT))
    if elsewhere and random.random() < 0.8:
        kind = SpanKind.SERVER
    engine = random.random() < 0.03
    return Span(
        trace_id=parent.trace_id,
        span_id=f"{number:016x}",
        parent_id=parent.span_id,
        name=random.choice(NAMES),
        kind=kind,
        service=service,
        instance=random.choice(("one", "two")) if elsewhere else parent.instance,
        host=random.choice((None, "here", "there")) if elsewhere else parent.host,
        scope=random.choice(ENGINES if engine else SCOPES),
        start_ns=start_ns,
        end_ns=end_ns,
        status=random.choice((StatusCode.UNSET, StatusCode.UNSET, StatusCode.OK)),
        attributes=_some(random, ATTRIBUTES, start_ns, 0.12)
        | _some(random, ENGINES_ATTRIBUTES, start_ns, 0.5 if engine else 0.003)
        | _usual(random, start_ns),
        events=_events(random, start_ns),
    )


def _events(random: Random, start_ns: int) -> tuple[Event, ...]:
    names = random.choice((*[()] * 8, ("exception",), ("preempted", "retracted"), FIRST_TOKENS))
    return tuple(Event(time_ns=start_ns + random.randint(0, 9), name=name) for name in names)


FIRST_TOKENS = ("First Token Stream Event", "gen_ai.content.completion.chunk")

Made = Callable[[Random, int], AttributeValue]


def _some(random: Random, table: dict[str, Made], start_ns: int, share: float) -> Attributes:
    keys = [key for key in table if random.random() < share]
    random.shuffle(keys)
    return {key: table[key](random, start_ns) for key in keys}


def _usual(random: Random, start_ns: int) -> Attributes:
    values: tuple[AttributeValue, ...] = (1, 1.0, True, "1", "yes", (1, "two"), None, "<removed>")
    attributes = {
        f"app.{key}": random.choice(values) for key in range(random.choice((0, 0, 1, 3)))
    }
    return attributes | ({"app.start": start_ns} if random.random() < 0.02 else {})


def _packed(random: Random, start_ns: int) -> AttributeValue:
    found = []
    for stage in random.sample(list(Stage), random.randint(0, 3)):
        at_ns = start_ns
        for _ in range(random.randint(1, 4)):
            at_ns += random.randint(0, 9)
            found.append(
                Interval(stage=stage, start_ns=at_ns, end_ns=at_ns + random.randint(0, 9))
            )
            at_ns = found[-1].end_ns
    return pack_intervals(found, start_ns)


def _gaps(random: Random, _: int) -> AttributeValue:
    groups = {}
    for name in random.sample([gap.value for gap in RuntimeGap], random.randint(1, 3)):
        edges = sorted(random.sample(range(60), 2 * random.randint(1, 3)))
        groups[name] = list(zip(edges[::2], edges[1::2], strict=True))
    return pack_named(groups, 0)


def _token_times(random: Random, _: int) -> AttributeValue:
    lengths = [random.randint(0, 30) for _ in range(random.randint(0, 6))]
    text = f"{random.randint(0, 9)};{','.join(map(str, lengths))}"
    return text + random.choice(("", "", ",12x2;5x1,3x1", ",12x2;5x1", "x", ";", "9" * 22))


def _count(random: Random, _: int) -> AttributeValue:
    return random.choice((0, 1, 2, 7, 30, 31, 500, -1))


def _any_count(random: Random, start_ns: int) -> AttributeValue:
    odd = (True, "7", None, 1.5, (3, 4), 1 << 70, 1 << 40)
    return random.choice(odd) if random.random() < 0.1 else _count(random, start_ns)


def _seconds(random: Random, _: int) -> AttributeValue:
    return random.choice((0.0, 1e-9, 2.5e-9, 1e-8, 3, -1.0, float("nan"), float("inf"), "1"))


def _of(*values: AttributeValue) -> Made:
    return lambda random, _: random.choice(values)


ATTRIBUTES: dict[str, Made] = {
    semconv.STAGE: lambda random, _: random.choice([*map(str, Stage), "no such stage"]),
    semconv.INTERVALS: _packed,
    semconv.RUNTIME_GAPS: _gaps,
    semconv.TOKEN_TIMES: _token_times,
    semconv.GEN_AI_OPERATION_NAME: _of("chat", "embeddings", "plan", 3),
    semconv.GEN_AI_REQUEST_MODEL: _of("llama", '["a", "b"]', "[", "", 5, ("x", "y"), ()),
    semconv.GEN_AI_RESPONSE_MODEL: _of("llama-3", None),
    semconv.GEN_AI_RESPONSE_FINISH_REASONS: _of(("stop",), '["length"]', "stop"),
    semconv.GEN_AI_USAGE_INPUT_TOKENS: _any_count,
    semconv.GEN_AI_USAGE_OUTPUT_TOKENS: _any_count,
    semconv.OPENINFERENCE_OUTPUT_TOKENS: _any_count,
    semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS: _count,
    semconv.GEN_AI_REQUEST_N: _count,
    semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: _seconds,
    semconv.LATENCY_TO_FIRST: _seconds,
    semconv.BATCH_SIZE: _any_count,
    semconv.QUEUE_DEPTH: _any_count,
    semconv.PREEMPTIONS: _count,
    semconv.DEVICE_START: _count,
    semconv.NETWORK_PHASES: _of("connect:1+2", "wait:3+4"),
    semconv.HTTP_REQUEST_METHOD: _of("GET", "POST"),
    semconv.URL_FULL: lambda random, _: f"http://host/{random.randint(0, 99)}",
    semconv.ASGI_EVENT_TYPE: _of("http.request", "http.disconnect"),
    semconv.DB_SYSTEM_NAME: _of("qdrant", "redis"),
    semconv.SERVER_ADDRESS: _of("vectors"),
    semconv.RPC_SYSTEM_NAME: _of("grpc"),
    "session.id": lambda random, _: f"session {random.randint(0, 5)}",
}
ENGINES_ATTRIBUTES: dict[str, Made] = {
    semconv.LATENCY_IN_QUEUE: _seconds,
    semconv.LATENCY_IN_PREFILL: _seconds,
    semconv.LATENCY_IN_DECODE: _seconds,
    semconv.LATENCY_E2E: _seconds,
    semconv.LANGFUSE_TYPE: _of("generation"),
    semconv.LANGFUSE_USAGE: _of('{"input": 3, "output": 5}', "{"),
}
ROOT_ATTRIBUTES: dict[str, Made] = ATTRIBUTES | {
    semconv.QUEUED_NS: _any_count,
    semconv.STREAMED_TOKENS: _any_count,
    semconv.STREAMED_EVENTS: _any_count,
    semconv.STREAMED_CHOICES: _of(1, 2, 0, "3", 5_000),
    semconv.STREAMED_FIRST_BODY: _count,
    semconv.CONCURRENCY: _any_count,
    semconv.HTTP_ROUTE: _of("/chat", "/chat/{id}", "/healthz", ""),
    semconv.URL_PATH: lambda random, _: random.choice(("/chat", "/health", "/ready", "/x")),
    semconv.URL_SCHEME: _of("http", "https"),
    semconv.HTTP_RESPONSE_STATUS_CODE: _of(200, 404, 429, 500, 503, 504, "500"),
    semconv.RPC_GRPC_STATUS_CODE_OLD: _of(0, 4, "CANCELLED"),
    semconv.ERROR_TYPE: _of("TimeoutError", "ValueError"),
    semconv.CANCELLED: lambda random, _: random.random() < 0.5,
    semconv.DETAIL: _of("control", "no_intervals", "of a later version", 1),
    semconv.SERVER_PORT: _of(80, "80"),
    "client.address": lambda random, _: f"10.0.0.{random.randint(0, 9)}",
    "user.id": lambda random, _: f"user {random.randint(0, 9)}",
}


def _change(random: Random, spans: list[Span], **changes: object) -> None:
    at = random.randrange(len(spans))
    spans[at] = replace(spans[at], **changes)  # type: ignore[arg-type] # fields of a span


def _note(random: Random, spans: list[Span], key: str, value: AttributeValue) -> None:
    at = random.randrange(len(spans))
    spans[at] = replace(spans[at], attributes={**spans[at].attributes, key: value})


def _twice(random: Random, spans: list[Span]) -> None:
    again = random.choice(spans)
    spans.append(replace(again, end_ns=again.end_ns + random.randint(0, 1)))


def _skewed(random: Random, spans: list[Span]) -> None:
    by_ns = random.choice((-5_000_000, 3, 5_000_000))
    host = random.choice(spans).host
    spans[:] = [
        replace(
            span,
            start_ns=max(span.start_ns + by_ns, 0),
            end_ns=max(span.end_ns + by_ns, 0),
            host="elsewhere",
        )
        if span.host == host and span.parent_id
        else span
        for span in spans
    ]


def _link(random: Random, spans: list[Span]) -> None:
    other = random.choice(spans)
    link = Link(trace_id=other.trace_id, span_id=other.span_id)
    _change(random, spans, links=(link,), kind=random.choice(list(SpanKind)))


FAULTS: tuple[Callable[[Random, list[Span]], None], ...] = (
    _twice,
    _skewed,
    _link,
    lambda random, spans: _change(random, spans, parent_id=f"{0xFFF:016x}"),
    lambda random, spans: _change(random, spans, parent_id=random.choice(spans).span_id),
    lambda random, spans: _change(random, spans, parent_id=None),
    lambda random, spans: _change(random, spans, end_ns=0),
    lambda random, spans: _change(random, spans, start_ns=1 << 63, end_ns=1 << 63),
    lambda random, spans: _change(random, spans, kind=random.choice(list(SpanKind))),
    lambda random, spans: _change(random, spans, service="another", kind=SpanKind.SERVER),
    lambda random, spans: _change(random, spans, scope=random.choice(("vllm", "litellm", "x"))),
    lambda random, spans: _change(random, spans, kind=SpanKind.CLIENT, status=StatusCode.ERROR),
    lambda random, spans: _note(random, spans, semconv.INTERVALS, "respond:1+,"),
    lambda random, spans: _note(random, spans, semconv.INTERVALS, random.choice((7, None, True))),
    lambda random, spans: _note(random, spans, semconv.RUNTIME_GAPS, "page_fault:0+40"),
    lambda random, spans: _note(random, spans, semconv.RUNTIME_GAPS, ("tuple",)),
    lambda random, spans: _note(random, spans, semconv.QUEUED_NS, random.choice((5, 1 << 45))),
    lambda random, spans: _note(random, spans, semconv.SHARED, bool(spans)),
    lambda random, spans: _note(random, spans, semconv.LANGFUSE_TYPE, "generation"),
    lambda random, spans: _change(
        random,
        spans,
        events=(Event(time_ns=random.choice(spans).start_ns, name="First Token Stream Event"),),
    ),
)
