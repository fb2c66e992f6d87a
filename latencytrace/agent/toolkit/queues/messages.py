"""Messages through a queue: when a request sent one, and the work that it asks for."""

from asyncio import _get_running_loop  # the public one raises where there is none
from collections.abc import Callable, Mapping
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, Final, NamedTuple, Protocol

from opentelemetry.context import Context
from opentelemetry.trace import (
    Span,
    SpanKind,
    StatusCode,
    get_current_span,
    get_tracer_provider,
)
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # what set_span_in_context sets, four calls deep
)

from latencytrace.agent.context import current, enter
from latencytrace.agent.guard import FAULTS, OnFault, edge_faults, guarded
from latencytrace.agent.spans.provider import SHUTDOWN_S
from latencytrace.agent.timing.hook import HookAttributes, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing, is_inside
from latencytrace.agent.timing.runtime_gaps import GAPS
from latencytrace.agent.timing.wrapping import BeginTimed, timed_coroutine, timed_function
from latencytrace.agent.toolkit.calls import Build, CountWithin
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.http.caller import carried_beside
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_MOST: Final = 256  # messages that one span sends
W3C: Final = ("traceparent", "tracestate", "baggage")
_GENERATED: Final = ("amq.gen-", "amq.rabbitmq.reply-to")  # names of RabbitMQ's own making


class Headers(Protocol):
    """Headers that go with a message."""

    def __setitem__(self, name: str, value: str, /) -> None:
        """Set one."""


def destination_of(exchange: str | None, routing_key: str | None) -> str:
    """Return where a message of RabbitMQ goes by name, of which there are not many."""
    name = exchange or routing_key or "(default)"
    return "(anonymous)" if name.startswith(_GENERATED) else name


def described(system: str, destination: str) -> HookAttributes:
    """Note where a message goes, or came from, never what is in it."""
    return {
        semconv.MESSAGING_SYSTEM: system,
        semconv.MESSAGING_DESTINATION_NAME: destination,
    }


class Sent(NamedTuple):
    """A message as it is sent."""

    name: str  # of what it asks for
    headers: Headers | None  # that go with it; None: the hook puts them there
    is_due: bool = True  # it is to be worked on at once
    attributes: HookAttributes | None = None


class _CarriedWork(Timing):
    """Work on a message that carries baggage, too: that is current within."""

    __slots__ = ("_carried",)

    def __init__(self, timing: Timing, carried: Context) -> None:
        super().__init__(timing.span, timing.started_ns, timing.pending)
        self._carried = carried

    def activate(self) -> None:
        """Make the span current until `deactivate`, and what came with it."""
        try:
            self.token = enter(Context({**current(), **self._carried, _SPAN_KEY: self.span}))
        except FAULTS as fault:
            edge_faults("making work current", fault)


class _WatchedWork(Timing):
    """Work that is a request: what it waits for is noted, as of one that a server has."""

    __slots__ = ("_gaps", "_requests", "_timing")

    def __init__(self, recorder: Recorder, timing: Timing) -> None:
        super().__init__(timing.span, timing.started_ns, timing.pending)
        self._timing = timing
        self._requests = recorder.open_requests
        self._gaps = self._requests.begin(on_loop=_get_running_loop() is not None)

    def activate(self) -> None:
        self._timing.activate()
        try:
            enter(Context({**current(), GAPS: self._gaps}))  # left with what is around it
        except FAULTS as fault:
            edge_faults("making work current", fault)

    def deactivate(self) -> None:
        self._timing.deactivate()

    def end(self, ended_ns: int | None = None) -> None:
        """End the span, with what the work waited for; only once."""
        self._requests.end(self._gaps)
        if self.span.is_recording():
            self.note(self._gaps.described(self.started_ns, self.collect_intervals()))
        super().end(ended_ns)


class MessageSpan:
    """A span around a sending or its work; a failure may be in what the call returns.

    Args:
        failure: Finds what the work raised in what the call returned; None: it raises that.
    """

    __slots__ = ("_failure", "_on_fault", "_timing")

    def __init__(
        self,
        timing: Timing,
        on_fault: OnFault,
        failure: Callable[[Any], BaseException | None] | None = None,
    ) -> None:
        self._timing = timing
        self._on_fault = on_fault
        self._failure = failure

    def activate(self) -> None:
        """Make it current."""
        self._timing.activate()

    def deactivate(self) -> None:
        """Make the span before it current again."""
        self._timing.deactivate()

    def finish(self, result: Any) -> None:
        """End it."""
        with guarded("ending a message", self._on_fault):
            error = None if self._failure is None else self._failure(result)
            if error is not None:
                self._timing.fail(error)
            self._timing.end()

    def fail(self, error: BaseException) -> None:
        """End it with what was raised."""
        with guarded("ending a message", self._on_fault):
            self._timing.fail(error)
            self._timing.end()


def timed_sends(read: Callable[[tuple[Any, ...], dict[str, Any]], Sent]) -> Build:
    """Build what sends W3C headers with each message, of a span where a request sends it.

    Args:
        read: Reads a call that sends a message; it may change the keywords of the call.
    """

    def build(recorder: Recorder, original: Timed) -> Timed:
        counts = CountWithin()

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> MessageSpan | None:
            with guarded("sending a message", recorder.on_fault):
                if recorder.suppressed():
                    return None
                name, headers, is_due, noted = read(args, kwargs)
                around = get_current_span()
                sending: Timing | None = None
                # A request that has it sent later does not wait for it.
                is_awaited = is_due and around.is_recording() and not _is_sending(name, around)
                if is_awaited and counts.next_of(around) <= _MOST:
                    sending = recorder.start(
                        f"send {name}", Stage.QUEUE, noted, kind=SpanKind.PRODUCER
                    )
                if headers is not None:
                    propagation.inject(headers, sending.context() if sending else None)
                return MessageSpan(sending, recorder.on_fault) if sending else None
            return None

        return _timed(original, begin)

    return build


def _is_sending(name: str, around: Span) -> bool:
    """Tell whether a span is already the sending: a broker hands it on to the class above."""
    is_of_name = getattr(around, "name", None) == f"send {name}"
    return is_of_name and is_inside(current(), (Stage.QUEUE,))


def _timed(original: Timed, begin: BeginTimed) -> Timed:
    return (timed_coroutine if iscoroutinefunction(original) else timed_function)(original, begin)


def begun_work(
    recorder: Recorder,
    name: str,
    headers: Mapping[str, Any],
    attributes: HookAttributes | None = None,
    otherwise: Context | None = None,
) -> Timing | None:
    """Begin the work that a message asks for, in the sender's trace.

    Args:
        otherwise: Where it belongs if the headers do not say; None: in the current context.
    """
    with guarded("beginning work", recorder.on_fault):
        if not recorder.suppressed():
            # They are ASCII; what JSON can hold besides would fail in the propagator.
            carried = {
                key: str(headers[key]).encode("ascii", "ignore").decode()
                for key in W3C
                if headers.get(key)
            }
            context = propagation.extract(carried, Context()) if carried else otherwise
            work = recorder.start(name, None, attributes, kind=SpanKind.CONSUMER, context=context)
            beside = carried_beside(context) if carried and context else None
            return work if beside is None else _CarriedWork(work, beside)
    return None


def by_keyword(names: tuple[str, ...], build: Build, needed: int = 1) -> Build:
    """Build what is handed the arguments of its call by name, so that it may change them.

    Args:
        names: Of the parameters behind `self`, in their order.
        needed: So many of them must be given; a call without is wrong, and says so itself.
    """

    def build_named(recorder: Recorder, original: Timed) -> Timed:
        inner = build(recorder, original)

        @wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = dict(zip(names, args, strict=False))
            is_clear = len(args) <= len(names) and given.keys().isdisjoint(kwargs)
            given.update(kwargs)
            if not is_clear or not given.keys() >= {*names[:needed]}:
                return original(self, *args, **kwargs)
            return inner(self, **given)

        @wraps(original)
        async def awaited(self: Any, *args: Any, **kwargs: Any) -> Any:
            return await call(self, *args, **kwargs)

        return awaited if iscoroutinefunction(original) else call

    return build_named


def flush(recorder: Recorder, timeout_s: float = SHUTDOWN_S) -> bool:
    """Send what was recorded: the process ends without any further step, or is frozen.

    Args:
        timeout_s: The longest to wait, since the next caller waits too.

    Returns:
        Whether all was sent in time.
    """
    send = getattr(get_tracer_provider(), "force_flush", None)
    with guarded("flushing", recorder.on_fault):
        return send is None or bool(send(round(timeout_s * 1000)))
    return False


def fail_work(error: BaseException) -> None:
    """Fail the work under way with what was raised, which its library keeps to itself."""
    span = get_current_span()
    if span.is_recording() and getattr(span, "kind", None) is SpanKind.CONSUMER:
        span.set_attribute(semconv.ERROR_TYPE, type(error).__qualname__)
        span.set_status(StatusCode.ERROR)


Work = (  # of `begun_work`
    tuple[str, Mapping[str, Any]]
    | tuple[str, Mapping[str, Any], HookAttributes]
    | tuple[str, Mapping[str, Any], HookAttributes, Context]
)


def timed_work(
    read: Callable[[tuple[Any, ...], dict[str, Any]], Work | None],
    failure: Callable[[tuple[Any, ...], Any], BaseException | None] | None = None,
) -> Build:
    """Build what times the work that a message asks for.

    Args:
        read: From the arguments to its name, headers and attributes; None: it is not timed.
        failure: Finds what it raised, by the arguments and what the call returned.
    """

    def build(recorder: Recorder, original: Timed) -> Timed:
        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> MessageSpan | None:
            with guarded("reading a message", recorder.on_fault):
                found_work = read(args, kwargs)
                timing = None if found_work is None else begun_work(recorder, *found_work)
                if timing is not None:
                    if timing.span.is_recording():
                        timing = _WatchedWork(recorder, timing)
                    found = None if failure is None else partial(failure, args)
                    return MessageSpan(timing, recorder.on_fault, found)
            return None

        return _timed(original, begin)

    return build
