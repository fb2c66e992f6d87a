"""Tasks of Celery: when they were sent, and the caller's context in the message's headers."""

from collections.abc import Mapping
from functools import wraps
from typing import Any, Final

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, get_current_span

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.toolkit.calls import CountWithin
from latencytrace.model.stage import Stage

_MOST: Final = 256  # tasks that one span sends
_W3C = ("traceparent", "tracestate", "baggage")


def send_headers(recorder: Recorder, original: Timed) -> Timed:
    """Send W3C headers with each task, of a span that says when a request sent it."""
    counts = CountWithin()

    def begin(name: object, options: dict[str, Any]) -> Timing | None:
        """Time a task that is sent to be run at once: who sends it later does not wait for it."""
        around = get_current_span()
        is_due = options.get("eta") is None and options.get("countdown") is None
        if not (is_due and around.is_recording()) or counts.next_of(around) > _MOST:
            return None
        return recorder.start(f"send {name}", Stage.QUEUE, kind=SpanKind.PRODUCER)

    @wraps(original)
    def send_task(self: Any, name: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - Celery's
        sending: Timing | None = None
        with guarded("sending a task", recorder.on_fault):
            if not recorder.suppressed():
                sending = begin(name, options)
                carried: dict[str, str] = {}
                propagate.inject(carried, sending.context() if sending else None)
                options["headers"] = {**(options.get("headers") or {}), **carried}
        try:
            return original(self, name, *args, **options)
        except BaseException as error:
            with guarded("noting an exception", recorder.on_fault):
                if sending is not None:
                    sending.fail(error)
            raise
        finally:
            with guarded("ending a sending", recorder.on_fault):
                if sending is not None:
                    sending.end()

    return send_task


def _begun(recorder: Recorder, name: str, request: Mapping[str, Any] | None) -> Timing | None:
    with guarded("starting a task", recorder.on_fault):
        if not recorder.suppressed():
            message = request or {}
            sent = {**(message.get("headers") or {}), **message}
            carried = {key: str(sent[key]) for key in _W3C if sent.get(key)}
            context = propagate.extract(carried, Context()) if carried else None
            return recorder.start(name, kind=SpanKind.CONSUMER, context=context)
    return None


def _note_failure(timing: Timing, outcome: Any) -> None:  # noqa: ANN401 - Celery's
    """Note what a task raised, which Celery keeps and reports beside the result."""
    info = getattr(outcome, "info", None)
    error = getattr(info, "retval", None)
    if getattr(info, "state", None) == "FAILURE" and isinstance(error, BaseException):
        timing.fail(error)


def time_tasks(recorder: Recorder, original: Timed) -> Timed:
    """Time each task that a worker runs, in the trace of who sent it."""

    @wraps(original)
    def build_tracer(name: str, task: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        run = original(name, task, *args, **kwargs)

        @wraps(run)
        def trace_task(uuid: str, args: Any, kwargs: Any, request: Any = None) -> Any:  # noqa: ANN401
            timing = _begun(recorder, name, request)
            if timing is None:
                return run(uuid, args, kwargs, request)
            timing.activate()
            try:
                outcome = run(uuid, args, kwargs, request)
            except BaseException as error:
                with guarded("noting an exception", recorder.on_fault):
                    timing.fail(error)
                raise
            else:
                with guarded("noting a task's failure", recorder.on_fault):
                    _note_failure(timing, outcome)
                return outcome
            finally:
                timing.deactivate()
                with guarded("ending a task", recorder.on_fault):
                    timing.end()

        return trace_task

    return build_tracer


class CeleryHook(Hook):
    """Patches where every task is sent, and where a worker makes what runs it."""

    requires = ("celery >= 5.2",)
    patches = (
        Replacement("celery.app.base", "Celery.send_task", send_headers),
        Replacement("celery.app.trace", "build_tracer", time_tasks),
        Replacement("celery.worker.consumer.consumer", "build_tracer", time_tasks),
    )
