"""Objectives and requests in, alerts out: it decides, and never sends."""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from latencytrace.analysis.columns.verdicts import in_cohort
from latencytrace.errors import StoreError
from latencytrace.model import Acknowledgement, Alert, Objective, Request, Standing, Tally
from latencytrace.model.objective import HOUR_NS
from latencytrace.service.answers.documents import AlertDocument
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.objectives.alerts import (
    FindFailingCall,
    alerts_of,
    earlier_alerts,
    ended_alert,
    standing_of,
    with_failing_call,
)
from latencytrace.service.objectives.maintenance import MaintenanceWindows
from latencytrace.service.objectives.memory import ObjectiveMemory
from latencytrace.service.objectives.tally_ring import outlived
from latencytrace.service.objectives.watched import WatchedObjectives
from latencytrace.service.sink import Notification

STEP_NS = 60 * 10**9  # a difference that is no drift


class SteadyClock:
    """The wall's time, carried on by a clock that is never set.

    Where the wall is set forward by more than a minute it is followed, as after a suspend;
    where it is set back, time goes on, so that nothing is counted twice.

    Args:
        wall_ns: Nanoseconds since the Unix epoch, by a clock that may be set.
        monotonic_ns: Nanoseconds since any moment, by a clock that cannot be set.
    """

    def __init__(self, wall_ns: Callable[[], int], monotonic_ns: Callable[[], int]) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self._offset_ns = wall_ns() - monotonic_ns()
        self._set_back_ns = 0
        self.jumps = 0

    def __call__(self) -> int:
        """Nanoseconds since the Unix epoch."""
        carried_ns = self._monotonic_ns() + self._offset_ns
        ahead_ns = carried_ns - self._wall_ns()
        if ahead_ns < -STEP_NS:
            self._offset_ns -= ahead_ns
            carried_ns -= ahead_ns
            ahead_ns = 0
            self.jumps += 1
        elif abs(ahead_ns - self._set_back_ns) > STEP_NS:
            self.jumps += 1
        else:
            return carried_ns
        self._set_back_ns = ahead_ns if ahead_ns > STEP_NS else 0
        return carried_ns

    @property
    def set_back_ns(self) -> int:
        """The time by which the wall clock, and with it what this machine stamps, is behind."""
        return self._set_back_ns


_log = logging.getLogger(__name__)


class Evaluator:
    """Counts requests for every objective, and says at each tick which alerts fire.

    Args:
        clock: The time of day.
        memory: Where counts and alerts are kept beyond a restart.
        failing_call: Names the call that made requests of an objective fail.

    Attributes:
        watched: The objectives, with their counts.
        maintenance: When they do not hold.
        counted_until_ns: The moment of writing up to which requests are counted; None: not known.
    """

    def __init__(
        self,
        objectives: Sequence[Objective],
        clock: SteadyClock,
        memory: ObjectiveMemory,
        failing_call: FindFailingCall = lambda *_: None,
    ) -> None:
        self._failing_call = failing_call
        self.clock = clock
        self._memory = memory
        self._lock = threading.Lock()
        self._started_ns = clock()
        self.watched = WatchedObjectives(objectives, memory, self._started_ns)
        self.maintenance = MaintenanceWindows()
        self._unkept: dict[tuple[str, int, int], Tally] = {}
        self._unkept_notifications: list[Notification] = []
        self.counted_until_ns = memory.counted_until_ns()
        self._unkept_until_ns = self._kept_until_ns = self.counted_until_ns
        self._evaluated_ns = self._started_ns
        self._tidied_ns = 0
        self._written: dict[str, str] = {}
        self._standings: tuple[Standing, ...] = ()
        self.future_stamps = 0
        self.outdated = 0
        states = memory.states()
        self._announced = {alert.fingerprint: alert for alert in earlier_alerts(states)}
        self._forgotten = states.keys() - self.watched.series()  # the file knows them no more
        self._alerts = self._evaluate(self._started_ns)

    def count(self, settled: Settled) -> None:
        """Count requests that have settled, each once, health routes never."""
        with self._lock:
            now_ns = self.clock()
            for table in settled.tables:
                self._count(table, now_ns)
            self.counted_until_ns = settled.until_ns

    def recall(self, requests: Iterable[Request]) -> None:
        """Note what there is to say of requests that an earlier process counted."""
        with self._lock:
            table = LedgerTable.of(requests).countable()
            self.watched.add_routes(table)
            for counts, _ in self.watched.entries:
                places = np.flatnonzero(table.counts & in_cohort(counts.objective, table))
                counts.note(table, places, table.end_ns[places])
            self._alerts = self._evaluate(self._started_ns)

    def replace(self, objectives: Sequence[Objective]) -> None:
        """Evaluate others from the next tick on; what both have in common goes on."""
        with self._lock:
            before = self.watched.series()
            self._gather()
            self.watched.replace(objectives, self._unkept)
            after = self.watched.series()
            self._forgotten = (self._forgotten | before) - after

    def tick(self) -> tuple[Alert, ...]:
        """Evaluate every objective now.

        Returns:
            The alerts that ended or began since the last tick, of an earlier process if need
            be: those whose objective left the file since have ended, too. Ends come first,
            for what begins may have the same labels.
        """
        with self._lock:
            now_ns = self.clock()
            before = self._announced
            alerts = self._evaluate(now_ns)
            self._evaluated_ns = now_ns
            self._gather()
            self._unkept_until_ns = self.counted_until_ns
        self._alerts = tuple(with_failing_call(one, self._failing_call) for one in alerts)
        self._announced = {alert.fingerprint: alert for alert in self._alerts}
        began = [alert for alert in self._alerts if alert.fingerprint not in before]
        ended = [
            ended_alert(alert, self._standings, now_ns)
            for fingerprint, alert in before.items()
            if fingerprint not in self._announced
        ]
        return (*ended, *began)

    def keep(self, notifications: Sequence[Notification] = ()) -> None:
        """Write what has changed; requests are counted meanwhile, however slow the disk.

        Args:
            notifications: Notifications of the last tick: kept with it, or neither is.
        """
        self._unkept_notifications += notifications
        written = {
            counts.series: state.text(counts.objective) for counts, state in self.watched.entries
        }
        states = {name: text for name, text in written.items() if self._written.get(name) != text}
        has_counted = self._unkept_until_ns != self._kept_until_ns
        if not (
            states or self._unkept or self._unkept_notifications or self._forgotten or has_counted
        ):
            return
        until_ns = self._unkept_until_ns
        try:
            notices, forgotten = self._unkept_notifications, self._forgotten
            outlived = self._outlived()
            self._memory.keep(self._unkept, states, outlived, notices, forgotten, until_ns)
        except StoreError as error:
            _log.error("%s", error)
        else:
            self._written = written
            self._kept_until_ns = until_ns
            self._unkept.clear()
            self._unkept_notifications.clear()
            self._forgotten.clear()

    def alerts(self) -> tuple[Alert, ...]:
        """The alerts that fire, as of the last tick."""
        return self._alerts

    def past_alerts(self) -> list[AlertDocument]:
        """The alerts that are over, the one that ended last first."""
        return self._memory.past_alerts()

    def acknowledge(self, fingerprint: str, said: Acknowledgement | None) -> Alert | None:
        """Acknowledge an alert, or take that back; None: no such alert fires.

        Raises:
            StoreError: The note could not be written.
        """
        with self._lock:
            found = next((one for one in self._alerts if one.fingerprint == fingerprint), None)
            noted = None if found is None else self.watched.acknowledge(found, said)
            if noted is not None:
                self._alerts = tuple(noted if one is found else one for one in self._alerts)
            return noted

    def standings(self) -> tuple[Standing, ...]:
        """The standing of each objective, as of the last tick."""
        return self._standings

    def _count(self, table: LedgerTable, now_ns: int) -> None:
        ends_ns = table.end_ns + self.clock.set_back_ns
        is_counted = table.counts
        self.watched.add_routes(table)
        for counts, _ in self.watched.entries:
            places = np.flatnonzero(is_counted & in_cohort(counts.objective, table))
            at_ns = np.minimum(ends_ns[places], now_ns)
            places = places[self.maintenance.hold_at(counts.objective, at_ns)]
            if len(places):
                at_ns = ends_ns[places]
                self.future_stamps += int(np.count_nonzero(at_ns > now_ns + STEP_NS))
                self.outdated += counts.count(table, places, np.minimum(at_ns, now_ns))

    def _evaluate(self, now_ns: int) -> tuple[Alert, ...]:
        standings: list[Standing] = []
        alerts: list[Alert] = []
        for counts, state in self.watched.entries:
            state.closed_ns = counts.rings.close(now_ns)
            maintained_ns = self.maintenance.latest_ns(counts.objective, now_ns)
            rates = state.step(counts, max(self._started_ns, maintained_ns), now_ns)
            standing = standing_of(counts, rates, now_ns)
            standings.append(standing)
            alerts += alerts_of(standing, counts, state, now_ns)
        self._standings = tuple(standings)
        return tuple(alerts)

    def _gather(self) -> None:
        for counts, _ in self.watched.entries:
            for length, at_ns, tally in counts.rings.changes():
                self._unkept[counts.series, length, at_ns] = tally

    def _outlived(self) -> dict[int, int]:
        """The ages beyond which counts go, once an hour: looking for them reads the whole file."""
        now_ns = self._evaluated_ns
        if now_ns // HOUR_NS == self._tidied_ns // HOUR_NS:
            return {}
        self._tidied_ns = now_ns
        return outlived(now_ns, [counts.objective.period_ns for counts, _ in self.watched.entries])
