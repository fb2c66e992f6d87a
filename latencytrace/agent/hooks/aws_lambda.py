"""Invocations of an AWS Lambda function, in the runtime that calls its handler."""

from collections.abc import Mapping
from functools import wraps
from typing import Any, Final

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.spans.provider import SHUTDOWN_S
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.queues.messages import flush, timed_work

_PAUSE_NS: Final = 60_000_000_000  # after a receiver did not answer in time


def _invocation(args: tuple[Any, ...], _: dict[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Read the name of the function, and the headers of a request that a gateway hands on."""
    event, context = args
    headers = event.get("headers") if isinstance(event, Mapping) else None
    given = headers.items() if isinstance(headers, Mapping) else ()
    name = str(getattr(context, "function_name", None) or "function")
    return name, {str(key).lower(): value for key, value in given}


_time_work = timed_work(_invocation)


class _Sending:
    """Sends what was recorded before an answer, unless no receiver took it shortly before."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._resumes_ns = 0

    def send(self, context: Any) -> None:
        """Wait for it, never longer than half of the time that the invocation has left."""
        with guarded("flushing", self._recorder.on_fault):
            if monotonic_ns() < self._resumes_ns:
                return
            limit_s = min(SHUTDOWN_S, context.get_remaining_time_in_millis() / 2000)
            if not flush(self._recorder, limit_s):
                self._resumes_ns = monotonic_ns() + _PAUSE_NS


def _timed(recorder: Recorder, handler: Timed, sending: _Sending) -> Timed:
    """Time a handler, and send what was recorded: once it is answered the machine may freeze."""
    timed_handler = _time_work(recorder, handler)

    @wraps(handler)
    def call(event: Any, context: Any) -> Any:
        try:
            return timed_handler(event, context)
        finally:
            sending.send(context)

    return call


def time_invocations(recorder: Recorder, original: Timed) -> Timed:
    """Time the handler of each."""
    sending = _Sending(recorder)

    @wraps(original)
    def handle_event_request(client: Any, request_handler: Any, *args: Any, **kwargs: Any) -> Any:
        handler = request_handler
        with guarded("timing a handler", recorder.on_fault):
            handler = _timed(recorder, request_handler, sending)
        return original(client, handler, *args, **kwargs)

    return handle_event_request


class AwsLambdaHook(Hook):
    """Times each invocation as a request of its own, in the caller's trace."""

    requires = ("awslambdaric >= 2.0",)
    patches = (Replacement("awslambdaric.bootstrap", "handle_event_request", time_invocations),)
