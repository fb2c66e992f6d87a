"""Watches objectives: evaluates them, reloads their file, and notifies sinks."""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Final

from latencytrace.errors import ObjectivesError, PluginError, SettingsError
from latencytrace.model import Alert, Objective, Request
from latencytrace.model.objective import HOUR_NS
from latencytrace.plugins import SINKS, load_plugin, plugins
from latencytrace.service.alerting.amendments import Amendments, FailingCalls
from latencytrace.service.alerting.document import AlertLinks, keeping_past
from latencytrace.service.alerting.outbox import NotificationMetrics, Outbox
from latencytrace.service.clock import now_ns
from latencytrace.service.cohort import Cohort
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.objectives.evaluator import Evaluator, SteadyClock
from latencytrace.service.objectives.file import ObjectivesFile, read_objectives, yaml_files
from latencytrace.service.objectives.maintenance import MaintenanceWindows
from latencytrace.service.objectives.memory import ObjectiveMemory
from latencytrace.service.objectives.metrics import ObjectiveMetrics
from latencytrace.service.sink import Sink
from latencytrace.service.store import Order, Store

_log = logging.getLogger(__name__)
_NAMES: Final = {"threshold_ns": "value", "target_ratio": "target", "period_ns": "duration"}
# Raised by a fault of our own parsers: watching goes on with the objectives that there are.
_READ_FAULTS: Final = (
    ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
_UNITS: Final = {"threshold_ns": 1e9, "period_ns": 86_400e9}

Stamp = tuple[tuple[str, int, int, int], ...]


class ObjectivesReload:
    """Reads a file of objectives again whenever it has changed, or at a signal.

    Args:
        path: A file, or a folder of them; None: there is none.
        found: As it was read at the start; None: there was none.

    Attributes:
        objectives: Objectives of the file.
        maintenance: Maintenance windows of the file.
        changed: Take the objectives that it has now, one after the other.
    """

    def __init__(self, path: Path | None, found: ObjectivesFile | None) -> None:
        self._path = path
        self.objectives = () if found is None else found.objectives
        self.maintenance = MaintenanceWindows(() if found is None else found.maintenance)
        self._windows = () if found is None else found.maintenance
        self.changed: list[Callable[[Sequence[Objective]], None]] = []
        self._asked = threading.Event()
        self._stamp = _stamp(path)
        self.is_failing = False

    def ask(self) -> None:
        """Read the file with the next step, changed or not."""
        self._asked.set()

    def step(self) -> None:
        """Look at the file; where it changed, take it up."""
        stamp = _stamp(self._path)
        if self._path is None or (stamp == self._stamp and not self._asked.is_set()):
            return
        self._asked.clear()
        self._stamp = stamp
        try:
            found = read_objectives(self._path)
        except ObjectivesError as error:
            self.is_failing = True
            _log.error("the objectives stay as they were, for the file is wrong: %s", error)
            return
        except _READ_FAULTS:
            self.is_failing = True
            _log.exception("the objectives stay as they were: please report this")
            return
        self.is_failing = False
        said = differences(self.objectives, found.objectives)
        if found.maintenance != self._windows:
            self._windows = found.maintenance
            self.maintenance.replace(found.maintenance, now_ns())
            said.append(f"windows of maintenance: {len(found.maintenance)} now")
        if not said:
            _log.info("the objectives were read again: none has changed")
            return
        for note in (*found.notes, *said):
            _log.info("%s", note)
        self.objectives = found.objectives
        for take in self.changed:
            take(found.objectives)


def differences(before: Sequence[Objective], after: Sequence[Objective]) -> list[str]:
    """Say what was added, what was removed and what was changed, a line each."""
    old = {one.name: one for one in before}
    new = {one.name: one for one in after}
    lines = [f"objective {name} was removed" for name in old if name not in new]
    lines += [f"objective {name} was added" for name in new if name not in old]
    for name, now in new.items():
        was = old.get(name)
        parts = [] if was is None else list(_parts(was, now))
        if parts:
            lines.append(f"objective {name} was changed: {', '.join(parts)}")
    return lines


def _parts(was: Objective, now: Objective) -> list[str]:
    found = []
    for field in fields(Objective):
        before, after = getattr(was, field.name), getattr(now, field.name)
        if before != after:
            name = _NAMES.get(field.name, field.name)
            texts = [_text(one, _UNITS.get(field.name)) for one in (before, after)]
            found.append(f"{name} {texts[0]} is {texts[1]} now")
    return found


def _text(value: object, unit: float | None) -> str:
    if isinstance(value, int | float):
        return f"{value / (unit or 1):.9g}"
    return "none" if value in {None, ()} else str(value)


def _stamp(path: Path | None) -> Stamp:
    """The state of the files: where they are, when they were written, how long they are."""
    if path is None:
        return ()
    folder = path if path.is_dir() else path.parent
    found = []
    try:
        for one in dict.fromkeys([path, *yaml_files(folder)]):
            of = one.stat()
            found.append((str(one), of.st_ino, of.st_mtime_ns, of.st_size))
    except OSError:
        return ()  # it is being replaced, or is gone: seen when it is there again
    return tuple(found)


PACE_S = 2.0  # between two evaluations

# Raised by a fault of our own functions.
_FAULTS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError,
)  # fmt: skip


class Watch:
    """An evaluator that runs.

    Args:
        memory: Keeps its counts and alerts; closed at the end.
        amendments: Finds the alerts with another cause than was sent.
        changed: Takes the alerts that began or ended, before the sinks are.
        reload: Looks whether the objectives are others now.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        memory: ObjectiveMemory,
        outbox: Outbox,
        amendments: Amendments,
        *,
        changed: Callable[[Iterable[Alert]], None] = lambda _: None,
        reload: Callable[[], None] = lambda: None,
    ) -> None:
        self._evaluator = evaluator
        self._memory = memory
        self._outbox = outbox
        self._amendments = amendments
        self._changed = changed
        self._reload = reload
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="latencytrace-watch", daemon=True)

    @property
    def is_running(self) -> bool:
        """Return whether objectives are being evaluated."""
        return self._thread.is_alive()

    def count(self, settled: Settled) -> None:
        """Count requests that have settled; a fault of ours must not stop the attribution."""
        try:
            self._evaluator.count(settled)
        except _FAULTS:
            _log.exception("requests were not counted for objectives: please report this")

    def start(self) -> None:
        """Begin to evaluate."""
        self._outbox.start()
        self._thread.start()

    def step(self) -> None:
        """Evaluate, keep that together with its notifications, then send those."""
        self._reload()
        changed = self._evaluator.tick()
        self._changed(changed)
        amended = self._amendments.due(self._evaluator.alerts())
        notifications = self._outbox.notifications(changed, amended)
        self._evaluator.keep(notifications)
        self._outbox.add(notifications)
        self._outbox.repeat(self._evaluator.alerts())

    def close(self) -> None:
        """Evaluate once more, so that nothing counted is forgotten, and stop."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self.step()
        self._outbox.close()
        self._memory.close()

    def _run(self) -> None:
        while not self._stopping.wait(PACE_S):
            self.step()


MAINTENANCE = "maintenance"  # the windows asked for, as the memory knows them
_RECALLED = 1000  # requests, for an alert that fires at the start


def watching(
    folder: Path,
    reload: ObjectivesReload,
    sinks: Sequence[tuple[str, str]],
    store: Store,
    links: AlertLinks,
    telemetry: Telemetry,
    changed: Callable[[Iterable[Alert]], None],
) -> tuple[Evaluator, Watch]:
    """An evaluator and what runs it.

    Args:
        folder: Where counts and alerts are kept.
        reload: The objectives to watch, and what looks after their file.
        sinks: Names and addresses of where alerts are sent.
        changed: Takes the alerts that began or ended, before sinks do.

    Raises:
        PluginError: No such sink is installed.
        SettingsError: A sink needs another address.
        StoreError: The evaluator's file cannot be opened.
    """
    clock = SteadyClock(now_ns, time.monotonic_ns)
    opened = {name: open_sink(name, address) for name, address in sinks}
    memory = ObjectiveMemory.open(folder, clock())
    if memory.counted_until_ns() is None:
        # Nothing is known of what was counted: it begins with what is written from now on.
        memory.keep({}, {}, {}, counted_until_ns=store.last_written_ns())
    failing_calls = FailingCalls(store.spans_of, clock)
    evaluator = Evaluator(reload.objectives, clock, memory, failing_calls)
    reload.maintenance.take_up(memory.note(MAINTENANCE))
    reload.maintenance.keep = partial(memory.keep_note, MAINTENANCE)
    evaluator.maintenance = reload.maintenance
    for alert in evaluator.alerts():
        evaluator.recall(_latest(store, alert.standing.objective, alert.started_ns))
    outbox = Outbox(opened, links, memory, clock, now_ns, random.random)
    reload.changed += [evaluator.replace, telemetry.counted.pin_routes]
    telemetry.registry.register(ObjectiveMetrics(evaluator, lambda: reload.is_failing))
    telemetry.registry.register(NotificationMetrics(outbox))
    noted = keeping_past(memory, links, changed)
    watch = Watch(evaluator, memory, outbox, Amendments(clock), changed=noted, reload=reload.step)
    return evaluator, watch


def open_sink(name: str, address: str) -> Sink:
    """Open the sink of a name, as LATENCYTRACE_SINKS gives it.

    Raises:
        PluginError: No such sink is installed.
        SettingsError: The address is not one of this sink.
    """
    if name not in {plugin.name for plugin in plugins(SINKS)}:
        known = ", ".join(plugin.name for plugin in plugins(SINKS))
        raise PluginError(f"LATENCYTRACE_SINKS: there is no sink {name!r}; installed: {known}")
    opened = getattr(load_plugin(SINKS, name), "open", None)
    if opened is None:
        raise PluginError(f"LATENCYTRACE_SINKS: {name!r} cannot be opened")
    try:
        sink: Sink = opened(address)
    except SettingsError as error:
        raise SettingsError(f"LATENCYTRACE_SINKS: {name!r}: {error}") from None
    return sink


def _latest(store: Store, objective: Objective, started_ns: int) -> Sequence[Request]:
    """The latest requests of an alert that fired before the start, in order."""
    cohort = Cohort(
        service=objective.service,
        route=objective.route,
        model=objective.model,
        version=objective.version,
        since_ns=started_ns - HOUR_NS,
    )
    return store.requests(cohort, Order.NEWEST, _RECALLED)[::-1]
