"""The detail in which requests are traced now: what hooks ask before they record something.

Speed is the point here: with full detail and without a control group a hook reads one attribute
(`tests/benchmarks/bench_overhead.py`).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from opentelemetry.context import Context, create_key
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags, TraceState
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # what set_span_in_context sets, four calls deep
)

from latencytrace.agent.compiled.core import core
from latencytrace.agent.context import current
from latencytrace.agent.spans.probability import (
    RANDOM_BITS,
    kept_with,
    randomness_of,
    threshold_of,
)
from latencytrace.agent.spans.span import Details, RecordedSpan
from latencytrace.agent.spans.tracer import TRACE_ID, new_id, random_bits
from latencytrace.model import semconv
from latencytrace.model.detail import TraceDetail

FULL: Final = 0
WITHOUT_GAPS: Final = 1
WITHOUT_INTERVALS: Final = 2
WITHOUT_CHEAP_CALLS: Final = 3
SAMPLED: Final = 4  # of the traces that begin here half, and of each step beyond half as many
LAST: Final = SAMPLED + 9
_LACKING: Final = (
    None, TraceDetail.NO_RUNTIME_GAPS, TraceDetail.NO_INTERVALS, TraceDetail.NO_CHEAP_CALLS,
)  # fmt: skip
SPARED: Final = create_key("latencytrace.spared")  # in the context of a request: no more spans
_CONTROL_BITS: Final = 20  # of a trace id; others than those that decide on sampling first
_CONTROL_MASK: Final = (1 << _CONTROL_BITS) - 1
_RANDOM: Final = 0x02  # W3C's flag of a random trace id


class DroppedSpan(NonRecordingSpan):
    """The span of a request that is not recorded, like what it calls; its ids are made late.

    Args:
        trace_id: All of it, or the random bits that decide on it.
    """

    def __init__(self, trace_id: int) -> None:
        self._trace_id = trace_id
        self._made: SpanContext | None = None

    def get_span_context(self) -> SpanContext:
        """Identify it to the services that the request calls, as not sampled."""
        if self._made is None:
            flags = TraceFlags(_RANDOM)
            upper = self._trace_id >> RANDOM_BITS or new_id(128 - RANDOM_BITS)
            trace_id = upper << RANDOM_BITS | self._trace_id & ((1 << RANDOM_BITS) - 1)
            self._made = SpanContext(trace_id, new_id(64), is_remote=False, trace_flags=flags)
        return self._made


class Decision(NamedTuple):
    """A decision on one request."""

    caller: Context  # to begin it in
    detail: TraceDetail | None  # `FULL`: as all others now; None: nothing of it is recorded


class Detail:
    """The detail of the moment, and counts of the requests by theirs; one for all hooks.

    Args:
        control_ratio: The share of requests that the others are held against.
    """

    __slots__ = (
        "cheap", "chunks", "control", "controls", "dropped", "gaps", "intervals", "lacks",
        "least", "reduced", "requests", "skips_calls", "spares", "state", "step", "threshold",
    )  # fmt: skip

    def __init__(self, control_ratio: float = 0.0) -> None:
        self.control = round(control_ratio * (1 << _CONTROL_BITS))
        self.reset_after_fork()

    def reset_after_fork(self) -> None:
        """In a forked child, or a new agent: full detail, nothing counted."""
        self.requests = 0  # traced with spans of what they call, in whatever detail
        self.reduced = 0  # of those, in less than full detail
        self.least = 0  # nothing but their own span, to keep the budget
        self.controls = 0  # requests chosen for the control group
        self.dropped = 0  # not recorded at all
        self.chunks = 0  # of streams
        self.set_step(FULL)

    def set_step(self, step: int, cheap: frozenset[str] = frozenset()) -> None:
        """Trace requests in this detail from now on.

        Args:
            step: From `FULL` to `LAST`.
            cheap: Names of spans that are left out `WITHOUT_CHEAP_CALLS`.
        """
        # Those sampled have full detail: a few whole ledgers say more than many with holes.
        sampled = step >= SAMPLED
        self.step = step
        self.lacks: TraceDetail | None = None if sampled else _LACKING[step]
        self.gaps = sampled or step < WITHOUT_GAPS
        self.intervals = sampled or step < WITHOUT_INTERVALS
        self.cheap = cheap if step == WITHOUT_CHEAP_CALLS else frozenset()
        self.threshold = threshold_of(self.sampling_ratio) if sampled else 0
        self.state: TraceState | None = (
            kept_with(TraceState(), self.threshold) if sampled else None
        )
        self.spares = self.threshold > 0 or self.control > 0
        self.skips_calls = self.spares or bool(self.cheap)

    @property
    def sampling_ratio(self) -> float:
        """Return the share of the traces that begin here which is recorded."""
        return 2.0 ** (SAMPLED - 1 - self.step) if self.step >= SAMPLED else 1.0

    def skips(self, name: str) -> bool:
        """Tell whether a call of this name makes no span here and now."""
        return name in self.cheap or (self.spares and SPARED in current())

    def decide(self, caller: Context) -> Decision:
        """Decide on a request that begins, by its trace id alone: alike in all services.

        A caller's trace is not dropped here: it would have a hole. It keeps the request's span.

        Args:
            caller: The context that its headers carry.
        """
        parent = caller.get(_SPAN_KEY)
        if isinstance(parent, Span) and parent.get_span_context().is_valid:
            context = parent.get_span_context()
            if not context.trace_flags.sampled:
                return Decision(caller, None)
            trace_id = context.trace_id
            random = randomness_of(trace_id, context.trace_state)
            below: TraceDetail | None = TraceDetail.SERVER_SPAN
        else:
            trace_id = cast("int", caller.get(TRACE_ID)) or new_id(128)  # drawn before?
            random = randomness_of(trace_id, None)
            below = None
            if random < self.threshold:
                return Decision(Context({**caller, _SPAN_KEY: DroppedSpan(trace_id)}), None)
            caller = Context({**caller, TRACE_ID: trace_id})
        if random < self.threshold:
            return Decision(caller, below)
        is_control = random & _CONTROL_MASK < self.control
        return Decision(caller, TraceDetail.CONTROL if is_control else TraceDetail.FULL)

    def begin(self) -> Context:
        """Begin a trace of a request that no caller and nothing in this process is part of.

        Returns:
            The context of one that is not recorded; or one to begin its span in.
        """
        random = random_bits(RANDOM_BITS)
        if random < self.threshold:
            self.dropped += 1
            return Context({_SPAN_KEY: DroppedSpan(random), SPARED: True})
        return Context({TRACE_ID: random_bits(128 - RANDOM_BITS) << RANDOM_BITS | random or 1})

    def count(self, detail: TraceDetail | None) -> None:
        """Count a request that begins, by what was decided on it."""
        if detail is TraceDetail.FULL:
            self.requests += 1
            if self.lacks is not None:
                self.reduced += 1
        elif detail is TraceDetail.CONTROL:
            self.controls += 1
        elif detail is None:
            self.dropped += 1
        else:
            self.least += 1

    def root(self, span: RecordedSpan, attributes: Mapping[str, object] | None) -> Span | None:
        """Decide on a span that begins a trace: whether it is recorded, and with which weight.

        What many requests share and what a program loads is recorded in any case.

        Returns:
            What stands in its place; None: it is recorded.
        """
        if not self.threshold or self.state is None:
            return None
        if attributes and (semconv.SHARED in attributes or semconv.STARTUP in attributes):
            return None
        if randomness_of(span.trace_id, None) < self.threshold:
            self.dropped += 1
            return DroppedSpan(span.trace_id)
        details = span.details = Details()
        details.trace_state = self.state
        return None


if core is not None:
    core.bind_detail(Detail)


def unless_spared(detail: Detail, span: Span) -> Span:
    """Return the current span; in a request that is left out, one that is not recorded."""
    if not (detail.spares and SPARED in current()):
        return span
    context = span.get_span_context()
    return NonRecordingSpan(SpanContext(context.trace_id, context.span_id, is_remote=False))
