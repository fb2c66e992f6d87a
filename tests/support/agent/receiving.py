"""A real OTLP receiver over loopback, and what it got, read with the stock protobuf classes."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.trace import SpanKind, StatusCode

from latencytrace.agent.reporting.status import AgentStatus
from latencytrace.agent.start import agent_status, flush
from latencytrace.model import Interval, Stage, semconv
from latencytrace.model.packed import unpack_intervals
from latencytrace.model.profile import UPLOAD_PATH
from tests.support.servers.recording import Received, RecordingServer, Response
from tests.support.waiting import PATIENCE_S, until

Value = str | bool | int | float | bytes | None | tuple["Value", ...] | dict[str, "Value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSpan:
    """One span as it arrived."""

    name: str
    scope: str
    trace_id: str
    span_id: str
    parent_id: str | None
    kind: SpanKind
    status: StatusCode
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    events: tuple[str, ...]
    resource: Mapping[str, Value]
    links: tuple[str, ...] = ()  # the ids of the spans that they lead to

    @property
    def stage(self) -> str | None:
        """The stage that the hook named."""
        stage = self.attributes.get(semconv.STAGE)
        return stage if isinstance(stage, str) else None

    @property
    def duration_ns(self) -> int:
        """From its start to its end."""
        return self.end_ns - self.start_ns

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """The work interleaved with it."""
        return unpack_intervals(str(self.attributes.get(semconv.INTERVALS, "")), self.start_ns)

    def interval_ns(self, stage: Stage) -> int:
        """How much interleaved work of one stage there is."""
        return sum(i.end_ns - i.start_ns for i in self.intervals if i.stage is stage)

    def covers(self, other: "ReceivedSpan") -> bool:
        """Whether another span lies within this one."""
        return self.start_ns <= other.start_ns <= other.end_ns <= self.end_ns


class Receiver(RecordingServer):
    """Takes OTLP over HTTP as a service does, or answers as a test tells it to.

    While `release` is cleared, posts of spans hang; other posts are answered.
    """

    def __init__(self, port: int = 0) -> None:
        super().__init__(port=port)
        self.answers: deque[tuple[int, dict[str, str]]] = deque()  # then 200 for ever
        self.posts: list[ExportTraceServiceRequest] = []  # those answered with 200
        self.post_headers: list[Mapping[str, str]] = []
        self.reports: list[ExportMetricsServiceRequest] = []
        self.report_headers: list[Mapping[str, str]] = []
        self.profiles: list[tuple[str, bytes]] = []  # ids and bodies
        self.report_status = 200
        self.refuses_profiles = False  # the connection breaks
        self.refused_profiles = 0
        self.refused = 0
        self.close_each = False

    @property
    def endpoint(self) -> str:
        """Its base address."""
        return self.url

    @property
    def spans(self) -> list[ReceivedSpan]:
        """All spans so far, in order of their arrival."""
        return [span for post in list(self.posts) for span in received_spans(post)]

    def respond(self, received: Received) -> Response:
        """Take a post."""
        if received.path.endswith("/v1/metrics"):
            return self._take_report(received)
        if UPLOAD_PATH in received.path:
            if self.refuses_profiles:
                self.refused_profiles += 1
                raise ConnectionResetError
            self.profiles.append((received.path.rpartition("/")[2], received.body))
            return Response()
        self.release.wait(PATIENCE_S)
        status, headers = self.answers.popleft() if self.answers else (200, {})
        if status == 200:
            self.post_headers.append(received.headers)
            self.posts.append(ExportTraceServiceRequest.FromString(received.body))
        else:
            self.refused += 1
        if self.close_each:
            headers = {**headers, "Connection": "close"}
        return Response(status, headers=headers)

    def _take_report(self, received: Received) -> Response:
        """Take what the agent says of itself, which no script of answers is about."""
        self.report_headers.append(received.headers)
        if self.report_status == 200:
            self.reports.append(ExportMetricsServiceRequest.FromString(received.body))
        return Response(self.report_status)


class TracedProgram:
    """This process with the agent on, and what it sent."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver

    @property
    def status(self) -> AgentStatus:
        """What the agent says of itself."""
        return agent_status()

    def spans(self, at_least: int = 0) -> list[ReceivedSpan]:
        """Every span that has ended, once there are so many of them."""
        assert flush(PATIENCE_S)
        until(lambda: flush(PATIENCE_S) and len(self.receiver.spans) >= at_least)
        return self.receiver.spans

    def named(self, name: str, count: int = 1) -> list[ReceivedSpan]:
        """So many spans of one name, in order of their start."""
        until(lambda: flush(PATIENCE_S) and len(_named(self.receiver.spans, name)) >= count)
        found = _named(self.receiver.spans, name)
        assert len(found) == count, [span.name for span in self.receiver.spans]
        return found

    def one(self, name: str) -> ReceivedSpan:
        """The one span of a name."""
        return self.named(name)[0]

    def of(self, stage: Stage) -> list[ReceivedSpan]:
        """The spans of one stage that have ended."""
        return [span for span in self.spans() if span.stage == stage]

    def names(self) -> list[str]:
        """The names of all spans, in order of their start."""
        return [span.name for span in sorted(self.spans(), key=lambda span: span.start_ns)]


def _named(spans: Iterable[ReceivedSpan], name: str) -> list[ReceivedSpan]:
    return sorted((s for s in spans if s.name == name), key=lambda span: span.start_ns)


def received_spans(post: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    """The spans of one request."""
    for of_resource in post.resource_spans:
        resource = attributes_of(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield _received(span, of_scope.scope.name, resource)


def _received(span: OtlpSpan, scope: str, resource: Mapping[str, Value]) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        scope=scope,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex() or None,
        kind=SpanKind(span.kind - 1),
        status=StatusCode(span.status.code),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=attributes_of(span.attributes),
        events=tuple(event.name for event in span.events),
        resource=resource,
        links=tuple(link.span_id.hex() for link in span.links),
    )


def metrics(request: ExportMetricsServiceRequest) -> dict[str, Metric]:
    """The metrics of a request's one resource and scope, by their names."""
    (of_resource,) = request.resource_metrics
    (of_scope,) = of_resource.scope_metrics
    return {metric.name: metric for metric in of_scope.metrics}


def attributes_of(pairs: Iterable[KeyValue]) -> dict[str, Value]:
    """Attributes as plain values."""
    return {pair.key: value_of(pair.value) for pair in pairs}


def value_of(value: AnyValue) -> Value:  # noqa: PLR0911 - one case a type
    """One value as a plain one."""
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "bytes_value":
            return value.bytes_value
        case "array_value":
            return tuple(map(value_of, value.array_value.values))
        case "kvlist_value":
            return attributes_of(value.kvlist_value.values)
        case _:
            return None
