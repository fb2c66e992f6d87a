"""The agent's composition root: provider, exporter, hooks; and how it starts and ends."""

import atexit
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import ProxyTracerProvider, Tracer

from latencytrace.agent.budget.detail import Detail
from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import call_in
from latencytrace.agent.device.timer import no_ranges, torch_ranges
from latencytrace.agent.device.timers import DeviceTimers, torch_events
from latencytrace.agent.export.batches import Saw
from latencytrace.agent.export.exporter import ExportCounts, Exporter
from latencytrace.agent.export.otlp_traces import OtlpEncoder
from latencytrace.agent.export.queue import SpanQueue
from latencytrace.agent.export.transport import METRICS, TRACES, Sender, TransportOptions
from latencytrace.agent.export.transports import Senders
from latencytrace.agent.guard import FaultCounter, OnFault, contained, edge_faults, guarded, logger
from latencytrace.agent.native import RLock
from latencytrace.agent.process import background
from latencytrace.agent.process.forks import (
    LONGEST_WAIT_S,
    ChildLosses,
    at_end_of_children,
    before_ends_at_once,
    in_child,
    renew,
    whole_imports,
)
from latencytrace.agent.process.imports import after_import, forget
from latencytrace.agent.process.interpreters import is_main_interpreter
from latencytrace.agent.process.late import Late
from latencytrace.agent.process.resource import new_instance_id, resource_of
from latencytrace.agent.process.termination import Termination
from latencytrace.agent.process.uwsgi_workers import WAITING, UwsgiWorkers, is_uwsgi
from latencytrace.agent.program.provider import GlobalProvider
from latencytrace.agent.program.spans import ProgramSpans
from latencytrace.agent.reporting.start_phases import StartPhases
from latencytrace.agent.spans.provider import SHUTDOWN_S, RecordingProvider
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.spans.tracer import RecordingTracer
from latencytrace.agent.timing import costs
from latencytrace.agent.timing.discovery import installed_hooks
from latencytrace.agent.timing.hook import Hook, HookOptions, ListedHook
from latencytrace.agent.timing.patching import AppliedHook
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.errors import SettingsError
from latencytrace.model import semconv
from latencytrace.model.texts.secrets import shown, text_shown
from latencytrace.plugins import Plugin, installed_version
from latencytrace.settings import ALL_TRACES, AgentSettings, agent_settings

if TYPE_CHECKING:  # what a start does without
    from latencytrace.agent.gpu.watch import GpuWatch
    from latencytrace.agent.profiling.orders import Profiling
    from latencytrace.agent.reporting.own_budget import OwnBudget
    from latencytrace.agent.reporting.self_report import SelfReport
    from latencytrace.agent.reporting.status import AgentStatus

SCOPE = "latencytrace"
REPORT_TIMEOUT_S = 2.0  # spans wait meanwhile
EXIT_FLUSH_S = SHUTDOWN_S
# What patches in greenlets; and what our threads import later, while greenlets may do so, too:
# code that waits for the lock of an import does not expect that a thread holds it.
_GREENLETS = ("gevent.monkey", "eventlet.patcher")
_LATER = (
    "ctypes",
    "json",
    "tempfile",
    "latencytrace.agent.export.http_connection",
    "latencytrace.agent.gpu.watch",
    "latencytrace.agent.profiling.orders",
    "latencytrace.agent.reporting.own_cost",
    "latencytrace.agent.reporting.self_report",
)
# What each child would load for the first time that it sends spans: before the first fork.
IN_CHILDREN = ("latencytrace.agent.export.http_connection", "latencytrace.agent.profiling.orders")
# Modules whose patches time requests and callbacks of event loops, by which these are priced.
_PRICED = ("starlette.applications", "asyncio.events")
_FASTAPI = ListedHook(
    Plugin("FastAPI's telemetry", "latencytrace.agent.program.provider:FastApiTelemetry"),
    (),
    ("fastapi.telemetry._asgi", "fastapi.telemetry._runtime"),
)


# One for all agents of the process: proxies of OpenTelemetry keep the tracers they got.
_provider = RecordingProvider()


class _Reports:
    """The agent's word on itself and on GPUs: made once there is time for it, not at the start.

    Args:
        to_metrics: Makes what carries metrics to an address.
        new_budget: Makes what the agent's own cost is held against.
    """

    def __init__(
        self,
        settings: AgentSettings,
        resource: Mapping[str, object],
        to_metrics: Callable[[str], Sender],
        new_budget: Callable[[], "OwnBudget"],
        on_fault: OnFault,
    ) -> None:
        self._settings = settings
        self._resource = resource
        self._to_metrics = to_metrics
        self._new_budget = new_budget
        self._on_fault = on_fault
        self._sender: Sender | None = None
        self._self_report: Late[SelfReport] | None = None  # None: no receiver takes metrics
        self.own = Late(new_budget)
        self.gpu = Late(self._new_gpu_watch)

    def begin(self) -> None:
        """Begin, in a forked child anew."""
        self.own = Late(self._new_budget)
        if self._sender is not None:
            self._sender.close()  # the connection is the parent's
        elif self._settings.metrics_url is not None:
            try:
                self._sender = self._to_metrics(self._settings.metrics_url)
            except SettingsError as error:
                logger.warning("latencytrace does not report on itself: %s", error)
        if self._sender is not None:
            self._self_report = Late(partial(self._new_self_report, self._sender, monotonic_ns()))
        if self.gpu.made is not None:
            self.gpu.made.reset_after_fork()
        elif self._settings.gpu or self._settings.gpu_port is not None:
            self.gpu()  # which says why it cannot be

    def send(self, status: Callable[[], "AgentStatus"]) -> None:
        report = None if self._self_report is None else self._self_report()
        if report is not None and report.may_be_due:
            from latencytrace.agent.reporting.self_report import Report

            report.send(Report.of(status()))

    def gpu_watch(self, exporter: Exporter) -> "GpuWatch | None":
        """Return what watches GPUs; where a caller waits for the exporter, only if it is made."""
        return self.gpu.made if exporter.is_hurried else self.gpu()

    def stop(self) -> None:
        """End; what was read of GPUs last is sent."""
        if self.gpu.made is not None:
            contained("stopping to watch GPUs")(self.gpu.made.stop)()
        contained("ending the report")(self._close)()

    def _close(self) -> None:
        if self._sender is not None:
            self._sender.close()

    def _new_self_report(self, sender: Sender, began_ns: int) -> "SelfReport":
        from latencytrace.agent.reporting.self_report import SelfReport

        return SelfReport(self._resource, sender, monotonic_ns, began_ns)

    def _new_gpu_watch(self) -> "GpuWatch | None":
        settings = self._settings
        url = settings.metrics_url if self._sender is not None else None
        port = settings.gpu_port
        if settings.gpu is False or (url is None and port is None):
            return None
        from latencytrace.agent.gpu.watch import GpuWatch, visible_gpus

        return GpuWatch(
            self._resource,
            None if url is None else self._to_metrics(url),
            port=None if port is None else (port.host, port.port),
            interval_s=settings.gpu_interval_s,
            is_wanted=settings.gpu is True,
            seen_by=partial(
                visible_gpus, settings.visible_gpus, in_bus_order=settings.gpus_in_bus_order
            ),
            on_fault=self._on_fault,
        )


class _Profiles:
    """Takes profiles from the first order on.

    Args:
        new: Makes what takes them.
    """

    def __init__(self, new: Callable[[], "Profiling"]) -> None:
        self._profiling = Late(new)
        self._ends = False

    def orders(self) -> "Profiling | None":
        """Return what takes orders; None: the process ends, and has not needed it."""
        return None if self._ends and self._profiling.made is None else self._profiling()

    def expect_end(self) -> None:
        """Begin none from now on, and give up one that is under way."""
        self._ends = True
        if whole_imports.lock.acquire(timeout=LONGEST_WAIT_S):  # until one that begins has begun
            whole_imports.lock.release()
        if self._profiling.made is not None:
            self._profiling.made.end()

    def go_on(self, *, are_taken: bool) -> None:
        """Take them as before."""
        self._ends = False
        if self._profiling.made is not None:
            self._profiling.made.is_on = are_taken

    def reset_after_fork(self) -> None:
        """In a forked child: the parent's is not ours."""
        if self._profiling.made is not None:
            self._profiling.made.reset_after_fork()


class Agent:
    """One running agent; at most one a process at a time.

    Args:
        on_fault: Takes what our own code raises; tests raise it again.
    """

    def __init__(self, settings: AgentSettings, on_fault: OnFault) -> None:
        self.settings = settings
        self.on_fault = on_fault
        self._resource = resource_of(
            settings.service_name, settings.resource_attributes,
            detectors=settings.resource_detectors,
        )  # fmt: skip
        self._sampling = _sampling(settings)
        self._began_ns: int | None = None  # None: it is about to
        self.losses = ChildLosses()
        self._fastapi: AppliedHook | None = None
        self._hooks: list[AppliedHook] = []
        self._detail = Detail(settings.control_ratio if self._sampling is None else 0.0)
        tracer = _provider.get_tracer(SCOPE, installed_version(SCOPE))
        self.recorder = Recorder(tracer, on_fault, self._detail, settings.propagate_to)
        options = TransportOptions(settings.gzip, *settings.tls_files)
        self._senders = Senders(settings.headers, options, grpc=settings.grpc)
        self._profiles = _Profiles(self._new_profiling)
        to = self._senders.to
        self._queue = SpanQueue(settings.queue_spans, settings.queue_bytes)
        self._program_spans = ProgramSpans(
            self._queue.on_end, lambda most_s: self.flush(min(most_s, EXIT_FLUSH_S)), on_fault
        )
        self._global = GlobalProvider(_provider, self._program_spans.join)
        self._reports = _Reports(
            settings,
            self._resource,
            partial(to, method=METRICS, timeout_s=REPORT_TIMEOUT_S, control=self._profiles.orders),
            self._new_own_budget,
            on_fault,
        )
        self._exporter = Exporter(
            OtlpEncoder(self._resource),
            to(settings.traces_url, TRACES, settings.timeout_s, self._profiles.orders),
            queue=self._queue,
            interval_s=settings.interval_s,
            on_fault=on_fault,
            saw=self._new_start_phases,
            after_round=self._report_changes,
        )

    def begin(self) -> None:
        """Take the place of the global provider, and apply the hooks."""
        costs.reset()
        settings = self.settings
        on_end: Callable[[RecordedSpan], None] = self._queue.on_end
        if settings.server_timing:
            on_end = self.recorder.server_timings.counting(on_end)
        _provider.configure(
            on_end,
            limits=settings.limits,
            sampling=self._sampling,
            roots=self._detail.root,
            resource=self._resource,
            flush=self.flush,
        )
        self._global.install()
        _expect_greenlets()
        if self.settings.gpu is not False:
            self.recorder.devices = DeviceTimers(
                torch_events, ranges_of=torch_ranges if self.settings.nvtx else no_ranges
            )
        options = HookOptions.of(settings)
        for name, hook in installed_hooks(settings.hooks, self.on_fault, options):
            with guarded(f"applying the hook {name}", self.on_fault):
                self._hooks.append(AppliedHook(name, hook, self.recorder, options))
        self._fastapi = AppliedHook(_FASTAPI.plugin.name, _FASTAPI, self.recorder)
        self._reports.begin()
        if not is_uwsgi():  # which takes the signal itself, and calls what is to be done at exit
            contained("expecting SIGTERM")(_termination.expect)()
        self._began_ns = monotonic_ns()

    def status(self) -> "AgentStatus":
        """Return what it does now."""
        from latencytrace.agent.reporting.status import AgentStatus

        counts: ExportCounts = self._exporter.counts
        dropped = counts.dropped + self.losses.spans
        queued = self._exporter.queued
        own, gpu = self._reports.own(), self._reports.gpu_watch(self._exporter)
        return AgentStatus(
            running=True,
            provider="the program's" if self._global.program else "ours",
            obstacle=WAITING if background.are_held() else None,
            endpoint=shown(self.settings.traces_url),
            spans_made=counts.sent + dropped + counts.in_flight + queued,
            spans_sent=counts.sent,
            spans_dropped=dropped,
            spans_queued=queued + counts.in_flight,
            export_cpu_ns=counts.export_cpu_ns,
            faults=edge_faults.faults
            + (self.on_fault.faults if isinstance(self.on_fault, FaultCounter) else 0),
            last_error=counts.last_error,
            hooks=tuple(hook.status for hook in self._hooks),
            gpu=None if gpu is None else gpu.status(),
            cost=own.cost,
            overhead=own.overhead,
            start_ns=self._start_phases.found,
            batches=self.recorder.batches.counts(),
        )

    def flush(self, timeout_s: float, *, reports: bool = True) -> bool:
        """Send every span that has ended by now."""
        self.recorder.devices.pending.give_up(None)
        return self._exporter.flush(timeout_s, reports=reports)

    def stop(self, timeout_s: float) -> None:
        """Restore every patch, send what waits, end the thread; each whatever the others do."""
        for hook in reversed(self._hooks):
            contained("restoring a hook's patches")(hook.restore)()
        if self._fastapi is not None:
            contained("restoring FastAPI's telemetry")(self._fastapi.restore)()
        _forget_greenlets()
        contained("ending a profile")(self.expect_end)()
        contained("ending pending spans")(self.recorder.devices.pending.give_up)(None)
        contained("leaving SIGTERM")(_termination.forget)()
        contained("leaving the global provider's place")(self._global.uninstall)()
        contained("leaving the program's provider")(self._program_spans.leave)()
        if self._global.program is None:
            # Tracers that the program keeps make its own spans, once it has a provider.
            contained("letting go of tracers")(_provider.yield_to)(ProxyTracerProvider())
        if not contained("sending what is left")(self._exporter.stop)(timeout_s):
            contained("counting what is left")(self.note_losses)()
        self._reports.stop()

    def expect_end(self) -> None:
        """Begin no report and no profile from now on, and give up a profile that is under way."""
        self._exporter.report(on=False)
        self._profiles.expect_end()

    def go_on(self) -> None:
        """Report and take profiles as before: the end that was expected has not come."""
        self._exporter.report(on=True)
        self._profiles.go_on(are_taken=self.settings.profile)
        self.losses.take_back()

    def note_losses(self) -> None:
        """Count for the parent what is not sent at the end; where there is none, log it."""
        counts = self._exporter.counts
        left = self._exporter.queued + counts.in_flight
        self.losses.note(left, shown(self.settings.traces_url), counts.last_error)

    def reset_after_fork(self) -> None:
        """In a forked child: an identity of its own, and none of the parent's spans."""
        self._resource[semconv.SERVICE_INSTANCE_ID] = new_instance_id()
        self._resource["process.pid"] = os.getpid()
        self._detail.reset_after_fork()
        self.recorder.reset_after_fork()
        self._profiles.reset_after_fork()
        self._reports.begin()
        self._exporter.reset_after_fork(OtlpEncoder(self._resource), _termination.begin_in_child)
        _provider.reset_after_fork()

    def _new_profiling(self) -> "Profiling":
        from latencytrace.agent.profiling.orders import Profiling

        return Profiling(
            self._resource,
            self.recorder,
            partial(self._senders.of_profile, self.settings.traces_url),
            is_on=self.settings.profile,
            on_fault=self.on_fault,
        )

    def _new_own_budget(self) -> "OwnBudget":
        from latencytrace.agent.reporting.own_budget import OwnBudget

        return OwnBudget(
            self.recorder,
            self.settings.overhead_ratio,
            self._queue.some,
            self._priced_hooks,
            lambda: self._exporter.is_hurried,
        )

    def _new_start_phases(self) -> Saw:
        self._start_phases = StartPhases(lambda: self.recorder.starting)
        return self._start_phases.saw

    def _priced_hooks(self) -> list[type[Hook]]:
        """Return the hooks that may time requests and callbacks, by which these are priced."""
        with whole_imports.lock:
            found = (one.hook_of(name) for one in self._hooks for name in _PRICED)
            return [hook for hook in found if hook]

    def _report_changes(self) -> None:
        """Report to the receiver how we do, if that changed; on the background thread."""
        if self._began_ns is None:  # its first round may come before that
            return
        counts, queued = self._exporter.counts, self._exporter.queued
        is_new = monotonic_ns() - self._began_ns < self.settings.interval_s * 1e9
        is_used = counts.sent or counts.dropped or queued or self._global.program is not None
        if is_new and not is_used and self._reports.gpu.made is None:  # it may end at once
            return
        may_sample = self.settings.may_sample and self._sampling is None
        may_sample = may_sample and self._global.program is None
        self._reports.own().update(counts, queued, may_sample=may_sample)
        if counts.sent or self._global.program:
            self._reports.send(self.status)
        self.recorder.devices.pending.give_up(monotonic_ns())
        gpu = self._reports.gpu_watch(self._exporter)
        if gpu is not None:
            gpu.report()


_lock = RLock()  # for uWSGI may refuse us in the midst of our start
_running: Agent | None = None
_obstacle: str | None = None  # why none can run in this process


def instrument(
    service_name: str | None = None,
    *,
    endpoint: str | None = None,
    hooks: Sequence[str] | None = None,
    gpu: bool | None = None,
) -> None:
    """Start to trace this process: one line, before or after the libraries are imported.

    A second call changes nothing. OpenTelemetry's environment variables are honoured;
    arguments come first. Settings that cannot be used are logged, and nothing starts; nor does
    it in a subinterpreter.

    Args:
        service_name: What breakdowns call this program; None: `OTEL_SERVICE_NAME`, else
            the program's own name.
        endpoint: Base address of an OTLP receiver; None: `OTEL_EXPORTER_OTLP_ENDPOINT`, else
            `http://127.0.0.1:4318`.
        hooks: Names of the hooks to apply; None: all that are installed.
        gpu: Whether to read GPUs; None: `LATENCYTRACE_GPU`, else where there are any. True
            says in the log why none can be read.
    """
    on_fault = FaultCounter()
    with guarded("starting", on_fault):
        try:
            settings = agent_settings(
                service_name=service_name,
                endpoint=endpoint,
                hooks=None if hooks is None else tuple(hooks),
                gpu=gpu,
            )
            if settings.disabled:
                return
            if is_main_interpreter():
                start(settings, on_fault)
            else:
                logger.warning("latencytrace stays off in a subinterpreter")
        except SettingsError as error:
            logger.error("latencytrace stays off: %s", text_shown(str(error)))


def start(settings: AgentSettings, on_fault: OnFault) -> None:
    """Start the one agent of this process, unless it runs already."""
    global _running  # noqa: PLW0603 - the one agent
    with _lock:
        if _running is not None:
            if settings != _running.settings:
                logger.warning(
                    "latencytrace runs already, so the new settings are not used; "
                    "call uninstrument() first"
                )
            return
        _workers.expect()
        if _obstacle is not None:
            return
        agent = Agent(settings, on_fault)
        try:
            agent.begin()
        except BaseException:
            contained("stopping")(agent.stop)(0.0)
            raise
        _running = agent


def uninstrument() -> None:
    """Stop to trace this process; every patched function is the very same as before."""
    global _running
    with _lock:
        agent, _running = _running, None
        if agent is not None:
            contained("stopping")(agent.stop)(EXIT_FLUSH_S)


@contextmanager
def paused() -> Iterator[None]:
    """End the agent for the time of a block that replaces locks, and start it anew."""
    agent = _running
    uninstrument()
    try:
        yield
    finally:
        contained("making locks anew")(renew)()
        if agent is not None:
            contained("starting anew")(start)(agent.settings, agent.on_fault)


def flush(timeout_s: float = 5.0) -> bool:
    """Send every span that has ended by now.

    Returns:
        Whether all were taken in time; True if no agent runs.
    """
    agent = _running
    return True if agent is None else bool(contained("flushing")(agent.flush)(timeout_s))


def agent_status() -> "AgentStatus":
    """Return what the agent does: spans made, sent, dropped; its cost; hooks and why not."""
    from latencytrace.agent.reporting.status import not_running

    agent = _running
    if agent is None:
        return not_running(_obstacle)
    return contained("describing the agent")(agent.status)() or not_running()


def _expect_greenlets() -> None:
    for name in _GREENLETS:
        after_import(name, _load_all)


@contained("leaving imports alone")
def _forget_greenlets() -> None:
    for name in _GREENLETS:
        forget(name, _load_all)


@contained("importing before greenlets are there")
def _load_all(_module: object) -> None:
    """Import what our threads would."""
    with whole_imports.lock:
        for name in _LATER:
            import_module(name)


def _refuse(obstacle: str) -> None:
    """End for good: nothing can be sent from here."""
    global _obstacle  # noqa: PLW0603 - one a process
    if _obstacle is None:
        logger.error("latencytrace stays off: %s", obstacle)
    _obstacle = obstacle
    uninstrument()


def _sampling(settings: AgentSettings) -> Callable[[RecordingTracer], Tracer] | None:
    """Return what makes tracers that ask a sampler; None: all traces are recorded."""
    if settings.sampler == ALL_TRACES:
        return None
    from latencytrace.agent.spans.sampling import sampling

    return sampling(settings.sampler, settings.sampler_argument)


def recorder() -> Recorder:
    """Return what times the program's own stages; without an agent by the program's provider."""
    _workers.look()
    agent = _running
    return Recorder(trace.get_tracer(SCOPE), FaultCounter()) if agent is None else agent.recorder


@contained("preparing a fork")
def _before_fork() -> None:
    agent = _running
    if agent is not None:
        agent.losses.before_fork()
        for name in IN_CHILDREN:
            if name not in sys.modules:  # in no request, of which a hook would time it
                call_in(Context(), import_module, name)


@contained("going on after a fork")
def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - the parent may have held it
    _lock = RLock()
    if _running is not None:
        _running.reset_after_fork()


@contained("sending what is left at exit")
def _at_exit() -> None:
    agent = _running
    if agent is not None:
        agent.expect_end()
        _provider.shutdown()  # as the SDK's does: the program's processors send what they hold
        agent.note_losses()
    _termination.forget()


def _send_last() -> None:
    """Send what is ours: where SIGTERM or `os._exit` ends it, nothing is done at its exit."""
    agent = _running
    if agent is not None and not agent.losses.are_noted:
        agent.expect_end()
        agent.flush(EXIT_FLUSH_S, reports=False)
        agent.note_losses()


def _go_on() -> None:
    agent = _running
    if agent is not None:
        agent.go_on()


_workers = UwsgiWorkers(_refuse)
_termination = Termination(_send_last, EXIT_FLUSH_S)
in_child(_after_fork)
os.register_at_fork(before=_before_fork)
os.register_at_fork(  # after all others of ours: a child that is to end is whole by then
    before=_termination.before_fork,
    after_in_parent=_termination.after_fork,
    after_in_child=_termination.after_fork_in_child,
)
atexit.register(_at_exit)
at_end_of_children(_at_exit)
before_ends_at_once(contained("sending the last spans")(_send_last), contained("going on")(_go_on))
