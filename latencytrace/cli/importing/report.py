"""The report of an import: counts, rejections with their places, how to read the rest."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.cli.importing.chunks import Place
from latencytrace.model.texts.units import count
from latencytrace.service.otlp.mending.account import Mend

MAX_LISTED: Final = 100  # rejections that are listed one by one
MAX_COUNTED: Final = 1_000_000  # traces that are counted exactly

_MENDED: Final = {
    Mend.TEXT: ("text was no UTF-8, and is mended", "texts were no UTF-8, and are mended"),
    Mend.VALUE: (
        "value is left out: OTLP holds no such",
        "values are left out: OTLP holds no such",
    ),
    Mend.TORN: ("torn value is left out", "torn values are left out"),
}
_SECOND_NS = 1_000_000_000
_ENTRY_KINDS = {ProtoSpan.SPAN_KIND_SERVER, ProtoSpan.SPAN_KIND_CONSUMER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A piece of a file that was not kept."""

    file: str
    line: int | None
    byte: int | None
    spans: int | None  # None: it could not be read so far
    reason: str

    def __str__(self) -> str:
        place = Place(line=self.line, byte=self.byte)
        what = f"{count(self.spans, 'span')} rejected: " if self.spans else ""
        return f"{self.file}, {place}: {what}{self.reason}"


@dataclass(slots=True)
class Report:
    """Counts of one import; bounded, however much is imported."""

    into: str
    files: int = 0
    spans: int = 0
    rejected_spans: int = 0
    rejections: list[Rejection] = field(default_factory=list)
    rejection_count: int = 0
    mended_values: Counter[Mend] = field(default_factory=Counter)
    requests: int | None = None  # in the time of the file, once they are attributed
    _traces: dict[int, bool] = field(default_factory=dict)  # whether the root of each came
    _first_ns: int | None = None  # of requests
    _last_ns: int | None = None

    def add(self, message: ExportTraceServiceRequest) -> None:
        """Count the spans of a message that is kept."""
        for resource in message.resource_spans:
            for scope in resource.scope_spans:
                self.spans += len(scope.spans)
                for span in scope.spans:
                    self._add_span(span)

    def reject(self, file: str, place: Place, reason: str, spans: int | None = None) -> None:
        """Note what is not kept."""
        self.rejection_count += 1
        self.rejected_spans += spans or 0
        if len(self.rejections) < MAX_LISTED:
            rejection = Rejection(
                file=file, line=place.line, byte=place.byte, spans=spans, reason=reason
            )
            self.rejections.append(rejection)

    @property
    def traces(self) -> int:
        """The number of traces, as far as they are counted."""
        return len(self._traces)

    @property
    def rootless_traces(self) -> int:
        """Traces of which no span came that could be a request."""
        return sum(not rooted for rooted in self._traces.values())

    @property
    def since(self) -> str | None:
        """The start of the first request, rounded down to a second."""
        return None if self._first_ns is None else _rfc3339(self._first_ns)

    @property
    def until(self) -> str | None:
        """The first second after the last request's start."""
        return None if self._last_ns is None else _rfc3339(self._last_ns + _SECOND_NS)

    def document(self) -> dict[str, object]:
        """Everything, for programs."""
        return {
            "into": self.into,
            "files": self.files,
            "spans": self.spans,
            "traces": self.traces,
            "rootless_traces": self.rootless_traces,
            "requests": self.requests,
            "since": self.since,
            "until": self.until,
            "mended_values": dict(self.mended_values),
            "rejected_spans": self.rejected_spans,
            "rejections": [asdict(rejection) for rejection in self.rejections],
            "rejections_left_out": self.rejection_count - len(self.rejections),
        }

    def lines(self, read_with: str) -> Iterator[str]:
        """The same for people.

        Args:
            read_with: Flags that let a reading command find the place.
        """
        least = "at least " if self.traces >= MAX_COUNTED else ""
        yield (
            f"{count(self.spans, 'span')} of {least}{count(self.traces, 'trace')} "
            f"imported into {self.into}"
        )
        if self.rootless_traces:
            yield (
                f"{count(self.rootless_traces, 'trace')} without root or server span: "
                "no requests until those come"
            )
        for kind, number in self.mended_values.items():
            yield count(number, *_MENDED[kind])
        if self.requests is not None:
            yield f"{count(self.requests, 'request')} from {self.since} to {self.until}; next:"
            yield (
                f"  latencytrace breakdown --since {self.since} --until {self.until}{read_with}"
            )

    def rejection_lines(self) -> Iterator[str]:
        yield from map(str, self.rejections)
        more = self.rejection_count - len(self.rejections)
        if more:
            yield f"and {count(more, 'rejection')} more"

    def _add_span(self, span: ProtoSpan) -> None:
        is_root = not span.parent_span_id.strip(b"\0")
        is_entry = is_root or span.kind in _ENTRY_KINDS
        trace = int.from_bytes(span.trace_id)
        if trace in self._traces or len(self._traces) < MAX_COUNTED:
            self._traces[trace] = self._traces.get(trace, False) or is_entry
        if is_entry:
            start_ns = span.start_time_unix_nano
            self._first_ns = min(start_ns, start_ns if self._first_ns is None else self._first_ns)
            self._last_ns = max(start_ns, self._last_ns or 0)


def _rfc3339(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns // _SECOND_NS, UTC):%Y-%m-%dT%H:%M:%SZ}"
