"""One timed operation, as OpenTelemetry reports it."""

from dataclasses import dataclass, field
from enum import StrEnum

from latencytrace.model.attributes import Attributes as Attributes  # noqa: PLC0414 - known here, too
from latencytrace.model.attributes import AttributeValue as AttributeValue  # noqa: PLC0414


class SpanKind(StrEnum):
    """OpenTelemetry's span kinds, as the Collector's tables spell them."""

    UNSPECIFIED = "Unspecified"
    INTERNAL = "Internal"
    SERVER = "Server"
    CLIENT = "Client"
    PRODUCER = "Producer"
    CONSUMER = "Consumer"


class StatusCode(StrEnum):
    """OpenTelemetry's status codes, as the Collector's tables spell them."""

    UNSET = "Unset"
    OK = "Ok"
    ERROR = "Error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A reference to a span that shared work with this one, possibly in another trace."""

    trace_id: str
    span_id: str
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at one instant within a span."""

    time_ns: int  # since the Unix epoch
    name: str
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One timed operation, as its sender reported it: nothing is repaired yet.

    It covers the half-open interval `[start_ns, end_ns)`, so two spans that
    touch do not overlap. A sender may report an end before the start.
    """

    trace_id: str  # 32 lower-case hex digits
    span_id: str  # 16 lower-case hex digits
    parent_id: str | None  # None: the root of its trace
    name: str
    kind: SpanKind = SpanKind.INTERNAL
    service: str = "unknown_service"
    instance: str | None = None  # service.instance.id
    host: str | None = None  # k8s.node.name, host.id or host.name: spans of one host share a clock
    version: str | None = None  # service.version
    scope: str = ""  # the instrumentation that made it
    start_ns: int  # since the Unix epoch, as OTLP sends it
    end_ns: int
    status: StatusCode = StatusCode.UNSET
    attributes: Attributes = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    links: tuple[Link, ...] = ()
    content_removed: int = 0  # attributes that the service left out as content
    trace_state: str = ""  # W3C's, of which the known entries are kept

    @property
    def clock(self) -> tuple[str, str]:
        """The clock that its times are of: the host's, or, of no known host, the instance's."""
        return (self.host, "") if self.host else (self.service, self.instance or "")
