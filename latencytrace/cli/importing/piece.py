"""The pieces that a file to import is read in."""

from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.service.otlp.mending.account import Mending


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a file."""

    line: int | None = None  # of a text, from 1
    byte: int | None = None  # of what is no text, from 0

    def __str__(self) -> str:
        return f"line {self.line}" if self.line is not None else f"byte {self.byte:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A piece of a file that could be read."""

    place: Place
    message: ExportTraceServiceRequest
    mending: Mending | None = None  # what had to be mended in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A piece of a file that could not."""

    place: Place
    reason: str
