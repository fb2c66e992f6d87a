"""One request that an application serves, however a server calls the application."""

from collections.abc import Iterable
from contextvars import Token
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from latencytrace.agent.context import enter, leave
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import HookAttributes
from latencytrace.agent.timing.intervals import IntervalRecorder
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.timing.runtime_gaps import with_gaps
from latencytrace.agent.toolkit.http.proxy_queue import queued_ns
from latencytrace.model import semconv

_FIRST_SERVER_ERROR = 500


class ServedRequest:
    """A request from its arrival to the end of its answer.

    Args:
        recorder: Where its span goes.
        name: Of the span, until the route is known: HTTP's method.
        attributes: What the request says of itself.
        caller: The context that its headers carry.
        on_loop: An event loop runs it.
        started_ns: A monotonic time; None: now.
    """

    def __init__(  # noqa: PLR0913 - what a span may have
        self,
        recorder: Recorder,
        name: str,
        attributes: HookAttributes,
        caller: Context,
        *,
        on_loop: bool,
        started_ns: int | None = None,
    ) -> None:
        self.recorder = recorder
        self.name = name
        self.timing: Timing = recorder.start(
            name, None, attributes, kind=SpanKind.SERVER, context=caller, started_ns=started_ns
        )
        self.intervals = IntervalRecorder()  # its own, not those of a stream below
        self._gaps = recorder.open_requests.begin(on_loop=on_loop)
        self._token: Token[Context] | None = None

    def context(self) -> Context:
        """The current context with the request in it."""
        return with_gaps(self._gaps, self.timing.context())

    def activate(self) -> None:
        """Make the request's span current."""
        with guarded("making a request current", self.recorder.on_fault):
            self._token = enter(self.context())

    def deactivate(self) -> None:
        """Make the span before it current again."""
        with guarded("leaving a request", self.recorder.on_fault):
            token, self._token = self._token, None
            if token is not None:
                leave(token)

    def note_status(self, status: int) -> None:
        """Note the status that it is answered with."""
        self.timing.note({semconv.HTTP_RESPONSE_STATUS_CODE: status})
        if status >= _FIRST_SERVER_ERROR:
            self.timing.note({semconv.ERROR_TYPE: str(status)})
            self.timing.span.set_status(StatusCode.ERROR)

    def note_route(self, route: str | None) -> None:
        """Note the template of its route, if one matched."""
        if route is not None:
            self.timing.note({semconv.HTTP_ROUTE: route})
            self.timing.span.update_name(f"{self.name} {route}")

    def fail(self, error: BaseException) -> None:
        """Note what the application raised, or that the caller is gone."""
        with guarded("noting an exception", self.recorder.on_fault):
            self.timing.fail(error)

    def end(self) -> None:
        """End the span; a second time changes nothing."""
        with guarded("ending a request", self.recorder.on_fault):
            self.recorder.open_requests.end(self._gaps)
            if self.timing.span.is_recording():
                self.timing.note(self.described())
                self.timing.intervals = self.intervals
                self.timing.end()

    def described(self) -> HookAttributes:
        """Return what is known of it only now, at its end."""
        return self._gaps.described(self.timing.started_ns, self.intervals)


def is_served() -> bool:
    """Say whether the current span is that of a request that is served."""
    current = get_current_span()
    return current.is_recording() and getattr(current, "kind", None) is SpanKind.SERVER


def queue_attributes(values: Iterable[Any]) -> HookAttributes:
    """Read how long a request waited behind a proxy out of the values of its headers."""
    attributes: HookAttributes = {}
    for value in values:
        waited_ns = queued_ns(str(value))
        if waited_ns is not None:
            attributes[semconv.QUEUED_NS] = waited_ns
    return attributes
