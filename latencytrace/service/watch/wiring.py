"""Puts together what watches objectives: memory, evaluator, outbox and sinks."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from latencytrace.errors import PluginError, SettingsError
from latencytrace.model import Alert, Objective, Request
from latencytrace.model.objective import HOUR_NS
from latencytrace.plugins import SINKS, load_plugin, plugins
from latencytrace.service.alerting.amendments import Amendments
from latencytrace.service.alerting.document import AlertLinks, keeping_past
from latencytrace.service.alerting.failing_calls import FailingCalls
from latencytrace.service.alerting.outbox import NotificationMetrics, Outbox
from latencytrace.service.clock import now_ns
from latencytrace.service.cohort import Cohort
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.objectives.evaluator import Evaluator, SteadyClock
from latencytrace.service.objectives.memory import ObjectiveMemory
from latencytrace.service.objectives.metrics import ObjectiveMetrics
from latencytrace.service.sink import Sink
from latencytrace.service.store import Order, Store
from latencytrace.service.watch.loop import Watch
from latencytrace.service.watch.reload import ObjectivesReload

MAINTENANCE = "maintenance"  # the windows asked for, as the memory knows them
_RECALLED = 1000  # requests, for an alert that fires at the start


def watching(  # noqa: PLR0913 - what it is made of
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
