"""Tasks of Celery: when they were sent, and the caller's context in the message's headers."""

from collections.abc import Mapping
from functools import wraps
from typing import Any, Final

from latencytrace.agent.guard import guarded
from latencytrace.agent.process.forks import ends_at_once
from latencytrace.agent.timing.hook import Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.queues.messages import Sent, Work, timed_sends, timed_work
from latencytrace.model import semconv

_RUNS: Final = "__trace__"  # of a task: what a worker calls to run it


def _sent(args: tuple[Any, ...], options: dict[str, Any]) -> Sent:
    given = options.get("headers") or {}
    headers = {**given} if isinstance(given, Mapping) else None  # that is Celery's to complain of
    if headers is not None:
        options["headers"] = headers
    is_due = options.get("eta") is None and options.get("countdown") is None
    return Sent(str(options["name"] if len(args) < 2 else args[1]), headers, is_due)  # noqa: PLR2004 - self, name


def _failure(_: tuple[Any, ...], outcome: Any) -> BaseException | None:
    """Find what a task raised, which Celery keeps and reports with the result."""
    info = getattr(outcome, "info", None)
    error = getattr(info, "retval", None)
    failed = getattr(info, "state", None) == "FAILURE" and isinstance(error, BaseException)
    return error if failed else None


def _timed_run(recorder: Recorder, name: str, run: Timed) -> Timed:
    """Time what runs a task, in the sender's trace."""

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Work:
        message = kwargs.get("request", args[3] if len(args) > 3 else None) or {}  # noqa: PLR2004 - of `trace_task`
        retries = message.get("retries")
        noted: HookAttributes = {semconv.RETRIES: retries} if retries else {}
        headers = message.get("headers")  # whatever another program sent
        return name, {**(headers if isinstance(headers, Mapping) else {}), **message}, noted

    return timed_work(read, _failure)(recorder, run)


def time_tasks(recorder: Recorder, unset: Timed | None) -> Any:
    """Time each task that a worker runs, also where the worker made what runs it before us.

    `worker_process_init`, where programs begin to trace a process, comes after that.
    """
    timed: dict[str, tuple[Timed, Timed]] = {}  # by the task's name: what runs it, and ours

    def runs(task: Any) -> Timed | None:
        run: Timed | None = vars(task).get(_RUNS, unset)
        if run is None:
            return None
        with guarded("timing a task", recorder.on_fault):
            made = timed.get(task.name)
            if made is None or made[0] is not run:
                made = timed[task.name] = run, _timed_run(recorder, task.name, run)
            return made[1]
        return run

    def set_runs(task: Any, run: Timed) -> None:
        vars(task)[_RUNS] = run

    def unset_runs(task: Any) -> None:
        if vars(task).pop(_RUNS, None) is None:
            raise AttributeError(_RUNS)

    return property(runs, set_runs, unset_runs)


def time_eager_tasks(recorder: Recorder, original: Timed) -> Timed:
    """Time each task that its caller runs."""

    @wraps(original)
    def build_tracer(name: str, task: Any, *args: Any, **kwargs: Any) -> Any:
        run = original(name, task, *args, **kwargs)
        return _timed_run(recorder, name, run) if kwargs.get("eager") else run

    return build_tracer


def send_first(_: Recorder, original: Timed) -> Timed:
    """Send what a worker's process has recorded: it ends without what Python does at an exit."""

    @wraps(original)
    def _do_exit(self: object, *args: Any, **kwargs: Any) -> Any:
        with ends_at_once():
            return original(self, *args, **kwargs)

    return _do_exit


class CeleryHook(Hook):
    """Patches where tasks are sent, what runs them, and where a worker's process ends."""

    requires = ("celery >= 5.2",)
    patches = (
        Replacement("celery.app.base", "Celery.send_task", timed_sends(_sent)),
        Replacement("celery.app.trace", "build_tracer", time_eager_tasks),
        Replacement("celery.app.task", f"Task.{_RUNS}", time_tasks),
        Replacement("billiard.pool", "Worker._do_exit", send_first, optional=True),
    )
