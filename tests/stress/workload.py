"""Traces as stock OpenTelemetry exporters send them, and the ledger that each must get.

The whole workload is made before its first post: the same seed gives the same posts, and a
slow machine sends them later, never others. Every trace is a tree of spans that do not
overlap within their parent, so that its ledger follows from the cuts alone.
"""

import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.model import Attributes, semconv
from tests.support.builders.spans.otlp_messages import key_values

GATEWAY: Final = "gateway"
WORKER: Final = "worker"
BATCH_SPANS: Final = 512  # of one post; the default of the stock exporters
SCHEDULE_S: Final = 5.0  # likewise: between two posts where the batch does not fill
WORKER_OFFSET_S: Final = 2.5  # its schedule lies between two posts of the gateway
SPANS: Final = (8, 20)  # of one trace
MS: Final = 1_000_000
ORDINARY_NS: Final = (20 * MS, 400 * MS)
LONG_NS: Final = (1_500 * MS, 4_000 * MS)  # its spans are spread over many posts
LONG_RATIO: Final = 0.03  # of all requests
UNATTRIBUTED: Final = "unattributed"
NETWORK: Final = "network"
OF_GATEWAY: Final = ("guardrail", "tokenize", "embed", "retrieve", "rerank", "cache")
OF_WORKER: Final = ("queue", "prefill", "decode", "detokenize", "postprocess")

Interval = tuple[int, int]
Place = tuple[str, str]  # a trace id and the span id of a request in it


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequest:
    """A request as its sender knows it."""

    trace_id: str
    span_id: str
    service: str
    outermost: bool
    duration_ns: int
    ledger: Mapping[str, int]  # nanoseconds by stage; stages without time are absent

    @property
    def place(self) -> Place:
        """The key of its row."""
        return self.trace_id, self.span_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One body, and when it leaves."""

    number: int  # its index in the workload
    due_s: float  # after the beginning
    body: bytes
    span_count: int
    trace_ids: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """All posts in order of time, and all requests in them."""

    posts: Sequence[Post]
    requests: Sequence[SentRequest]
    spans_of: Mapping[str, int]  # by trace id

    @property
    def span_count(self) -> int:
        """The spans of all posts."""
        return sum(post.span_count for post in self.posts)


@dataclass(slots=True)
class _Traces:
    """What is made of the requests one by one."""

    chance: random.Random
    spans: dict[str, list[ProtoSpan]] = field(default_factory=dict)  # by service
    requests: list[SentRequest] = field(default_factory=list)

    def add(self, start_ns: int, *, through_worker: bool) -> None:
        """Add a trace of 8 to 20 spans that starts then."""
        chance = self.chance
        trace_id = chance.randbytes(16)
        bounds = LONG_NS if chance.random() < LONG_RATIO else ORDINARY_NS
        whole = (start_ns, start_ns + chance.randint(*bounds))
        count = chance.randint(*SPANS) - 1
        ledger = Counter[str]()
        root = self._span(
            GATEWAY, trace_id, None, "POST /chat", whole, kind=ProtoSpan.SPAN_KIND_SERVER
        )
        if not through_worker:
            self._children(GATEWAY, trace_id, root, whole, count, ledger)
        else:
            percent_ns = (whole[1] - whole[0]) // 100
            asking = (whole[0] + chance.randint(20, 50) * percent_ns, whole[1] - 5 * percent_ns)
            in_gateway = max(count // 4, 1)
            before = (whole[0], asking[0])
            self._children(GATEWAY, trace_id, root, before, in_gateway, ledger)
            ledger[UNATTRIBUTED] += whole[1] - asking[1]
            self._ask(trace_id, root, asking, count - in_gateway - 2, ledger)
        self._note(trace_id, root, GATEWAY, whole, ledger)

    def _ask(
        self, trace_id: bytes, parent: bytes, asking: Interval, count: int, ledger: Counter[str]
    ) -> None:
        """Add a call of the worker: a client span of the gateway around a server span."""
        client = self._span(
            GATEWAY, trace_id, parent, "POST /generate", asking, kind=ProtoSpan.SPAN_KIND_CLIENT
        )
        sixteenth_ns = (asking[1] - asking[0]) // 16
        served = (asking[0] + sixteenth_ns, asking[1] - sixteenth_ns)
        server = self._span(
            WORKER, trace_id, client, "POST /generate", served, kind=ProtoSpan.SPAN_KIND_SERVER
        )
        inner = Counter[str]()
        self._children(WORKER, trace_id, server, served, count, inner)
        self._note(trace_id, server, WORKER, served, inner)
        ledger.update(inner)
        ledger[NETWORK] += served[0] - asking[0] + asking[1] - served[1]

    def _children(
        self,
        service: str,
        trace_id: bytes,
        parent: bytes,
        within: Interval,
        count: int,
        ledger: Counter[str],
    ) -> None:
        """Cut an interval into spans with gaps, every third with a span of its own inside."""
        chance = self.chance
        stages = OF_GATEWAY if service == GATEWAY else OF_WORKER
        nested = count // 4
        cuts = sorted(chance.sample(range(within[0] + 1, within[1]), 2 * (count - nested)))
        ledger[UNATTRIBUTED] += within[1] - within[0]
        for place, cut in enumerate(zip(cuts[::2], cuts[1::2], strict=True)):
            stage = chance.choice(stages)
            span = self._span(service, trace_id, parent, stage, cut, stage=stage)
            length_ns = cut[1] - cut[0]
            ledger[UNATTRIBUTED] -= length_ns
            if place < nested:
                inside = (cut[0] + length_ns // 4, cut[1] - length_ns // 4)
                other = chance.choice(stages)
                self._span(service, trace_id, span, other, inside, stage=other)
                ledger[other] += inside[1] - inside[0]
                length_ns -= inside[1] - inside[0]
            ledger[stage] += length_ns

    def _span(
        self,
        service: str,
        trace_id: bytes,
        parent: bytes | None,
        name: str,
        interval: Interval,
        *,
        stage: str | None = None,
        kind: ProtoSpan.SpanKind.ValueType = ProtoSpan.SPAN_KIND_INTERNAL,
    ) -> bytes:
        """Add a span, and return its id."""
        span_id = self.chance.randbytes(8)
        attributes: Attributes = {
            "thread.id": self.chance.randrange(1 << 20),
            "code.function.name": f"app.{name}",
        }
        if stage is not None:
            attributes = {**attributes, semconv.STAGE: stage}
        elif kind == ProtoSpan.SPAN_KIND_SERVER:
            method, route = name.split()
            told = {semconv.HTTP_REQUEST_METHOD: method, semconv.HTTP_ROUTE: route}
            attributes = {**attributes, **told}
        else:
            told = {semconv.HTTP_REQUEST_METHOD: "POST", "server.address": WORKER}
            attributes = {**attributes, **told}
        self.spans.setdefault(service, []).append(
            ProtoSpan(
                trace_id=trace_id,
                span_id=span_id,
                parent_span_id=parent or b"",
                name=name,
                kind=kind,
                start_time_unix_nano=interval[0],
                end_time_unix_nano=interval[1],
                attributes=key_values(attributes),
            )
        )
        return span_id

    def _note(
        self,
        trace_id: bytes,
        span_id: bytes,
        service: str,
        whole: Interval,
        ledger: Mapping[str, int],
    ) -> None:
        self.requests.append(
            SentRequest(
                trace_id=trace_id.hex(),
                span_id=span_id.hex(),
                service=service,
                outermost=service == GATEWAY,
                duration_ns=whole[1] - whole[0],
                ledger={stage: time_ns for stage, time_ns in ledger.items() if time_ns},
            )
        )


def workload(
    *,
    requests: int,
    rate: float,
    services: int = 1,
    seed: int = 1,
    batch_spans: int = BATCH_SPANS,
) -> Workload:
    """Make a workload whose spans bear the present time.

    With one service, a post leaves once its batch is full, or on the schedule. With two, every
    third request stays in the gateway, and each service posts on its own schedule, as a fleet
    of small processes does: the halves of a trace arrive seconds apart.

    Args:
        requests: How many traces.
        rate: Of their beginnings, a second on average.
        services: 1 or 2.
        seed: Of all chance in it.
        batch_spans: The most spans of a post.
    """
    traces = _Traces(random.Random(seed))
    begin_ns, at_s = time.time_ns(), 0.0
    for number in range(requests):
        at_s += traces.chance.expovariate(rate)
        through_worker = services > 1 and number % 3 > 0
        traces.add(begin_ns + int(at_s * 1e9), through_worker=through_worker)
    leaving = sorted(
        (
            (at_s, service, batch)
            for service, spans in traces.spans.items()
            for at_s, batch in _batches(
                spans,
                begin_ns,
                first_s=WORKER_OFFSET_S if service == WORKER else SCHEDULE_S,
                batch_spans=batch_spans,
                when_full=services == 1,
            )
        ),
        key=lambda one: one[:2],
    )
    return Workload(
        posts=[_post(number, *one) for number, one in enumerate(leaving)],
        requests=traces.requests,
        spans_of=Counter(span.trace_id.hex() for spans in traces.spans.values() for span in spans),
    )


def _batches(
    spans: Iterable[ProtoSpan],
    begin_ns: int,
    *,
    first_s: float,
    batch_spans: int,
    when_full: bool,
) -> Iterator[tuple[float, list[ProtoSpan]]]:
    """Cut spans into posts as a batching processor does: in the order in which they ended."""
    waiting: list[ProtoSpan] = []
    timer_s = first_s
    for span in sorted(spans, key=lambda one: one.end_time_unix_nano):
        ended_s = (span.end_time_unix_nano - begin_ns) / 1e9
        while ended_s > timer_s:
            for start in range(0, len(waiting), batch_spans):
                yield timer_s, waiting[start : start + batch_spans]
            waiting = []
            timer_s += SCHEDULE_S
        waiting.append(span)
        if when_full and len(waiting) >= batch_spans:
            yield ended_s, waiting
            waiting = []
            timer_s = ended_s + SCHEDULE_S
    for start in range(0, len(waiting), batch_spans):
        yield timer_s, waiting[start : start + batch_spans]


def _post(number: int, due_s: float, service: str, spans: Sequence[ProtoSpan]) -> Post:
    message = ExportTraceServiceRequest()
    of_resource = message.resource_spans.add()
    resource = {
        semconv.SERVICE_NAME: service,
        semconv.SERVICE_INSTANCE_ID: f"{service}-1",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
    }
    of_resource.resource.attributes.extend(key_values(resource))
    of_scope = of_resource.scope_spans.add()
    of_scope.scope.name = "stress"
    of_scope.spans.extend(spans)
    return Post(
        number=number,
        due_s=due_s,
        body=message.SerializeToString(),
        span_count=len(spans),
        trace_ids=frozenset(span.trace_id.hex() for span in spans),
    )
