"""Stages of a request so far, for the header `Server-Timing`."""

from collections.abc import Callable, Iterable

from opentelemetry.trace import Span

from latencytrace.agent.guard import OnFault, guarded
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.model import semconv

MOST_SPANS = 1000  # of one request
Stretches = dict[str, list[tuple[int, int]]]  # starts and ends by stage


class ServerTiming:
    """The stages of one request under way."""

    __slots__ = ("_left", "_started_ns", "_stretches", "trace_id")

    def __init__(self, trace_id: int, started_ns: int) -> None:
        self.trace_id = trace_id
        self._started_ns = started_ns
        self._stretches: Stretches = {}
        self._left = MOST_SPANS

    def add(self, stage: str, start_ns: int, end_ns: int) -> None:
        """Count a span, unless there were too many."""
        if self._left:
            self._left -= 1
            self._stretches.setdefault(stage, []).append((start_ns, end_ns))

    def value(self, now_ns: int) -> str:
        """Return the header's value: how long each stage was busy, and the whole, in ms."""
        busy = {stage: _union_ns(list(parts)) for stage, parts in list(self._stretches.items())}
        longest_first = sorted(busy.items(), key=lambda item: -item[1])
        entries = [*longest_first, ("total", now_ns - self._started_ns)]
        return ", ".join(f"{name};dur={length_ns / 1e6:.1f}" for name, length_ns in entries)


class ServerTimings:
    """Stages of all requests under way, if a client asked for them."""

    __slots__ = ("_on_end", "_on_fault", "_open")

    def __init__(self, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._on_end: Callable[[RecordedSpan], None] | None = None  # None: no client asked
        self._open: dict[int, tuple[ServerTiming, ...]] = {}  # by trace id

    def counting(self, on_end: Callable[[RecordedSpan], None]) -> Callable[[RecordedSpan], None]:
        """Count each span that ends from now on, before it goes to `on_end`."""
        self._on_end = on_end
        return self.on_end

    def begin(self, span: Span, started_ns: int) -> ServerTiming | None:
        """A request begins, at a monotonic time; None: its stages are not asked for."""
        if self._on_end is None or not span.is_recording():
            return None
        trace_id = span.get_span_context().trace_id
        timing = ServerTiming(trace_id, started_ns)
        self._open[trace_id] = (*self._open.get(trace_id, ()), timing)
        return timing

    def end(self, timing: ServerTiming | None) -> None:
        """It has ended; a second time changes nothing."""
        if timing is None:
            return
        left = tuple(one for one in self._open.get(timing.trace_id, ()) if one is not timing)
        if left:
            self._open[timing.trace_id] = left
        else:
            self._open.pop(timing.trace_id, None)

    def on_end(self, span: RecordedSpan) -> None:
        """Count a span that has ended, and hand it on."""
        with guarded("noting a stage for Server-Timing", self._on_fault):
            stage = span.raw_attributes.get(semconv.STAGE) if span.raw_attributes else None
            if isinstance(stage, str):
                for timing in self._open.get(span.trace_id, ()):
                    timing.add(stage, span.started_ns, span.ended_ns)
        if self._on_end is not None:
            self._on_end(span)


def _union_ns(stretches: Iterable[tuple[int, int]]) -> int:
    total_ns = until_ns = 0
    for start_ns, end_ns in sorted(stretches):
        total_ns += max(end_ns - max(start_ns, until_ns), 0)
        until_ns = max(until_ns, end_ns)
    return total_ns
