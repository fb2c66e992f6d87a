"""Objectives and requests in, alerts out: it decides, and never sends."""

import json
import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace

from latencytrace.analysis.burn_rate import budget_left_ratio, burn_rules, exhaustion_ns
from latencytrace.errors import StoreError
from latencytrace.model import (
    Alert,
    AlertKind,
    BurnRates,
    Evidence,
    Objective,
    Request,
    Severity,
    Standing,
    Tally,
)
from latencytrace.model.objective import HOUR_NS
from latencytrace.service.objective_counts import (
    COARSE_EXTRA_NS,
    COARSE_NS,
    FINE_NS,
    FINE_SPAN_NS,
    ObjectiveCounts,
)
from latencytrace.service.objective_memory import ObjectiveMemory
from latencytrace.service.objective_state import (
    ObjectiveState,
    SilenceState,
    TierState,
    TierStates,
)
from latencytrace.service.sink import Notice
from latencytrace.service.steady_clock import STEP_NS, SteadyClock

NO_EVIDENCE = Evidence(guilty=None, failed_ratio=None, version=None, distinctions=(), slowest=())
_log = logging.getLogger(__name__)


class Evaluator:
    """Counts requests for every objective, and says at each tick which alerts fire.

    Args:
        objectives: What is promised.
        clock: The time of day.
        memory: Where counts and alerts are kept beyond a restart.
    """

    def __init__(
        self, objectives: Sequence[Objective], clock: SteadyClock, memory: ObjectiveMemory
    ) -> None:
        self._clock = clock
        self._memory = memory
        self._lock = threading.Lock()
        self._started_ns = clock()
        self._counts = [ObjectiveCounts(objective) for objective in objectives]
        self._of_service: dict[str, list[ObjectiveCounts]] = {}
        for counts in self._counts:
            self._of_service.setdefault(counts.objective.service, []).append(counts)
        self._states = [
            ObjectiveState(
                tiers=TierStates(of_rule={rule: TierState() for rule in burn_rules(objective)})
            )
            for objective in objectives
        ]
        self._unkept: dict[tuple[str, int, int], Tally] = {}
        self._unkept_notices: list[Notice] = []
        self._evaluated_ns = self._started_ns
        self._standings: tuple[Standing, ...] = ()
        self._alerts: tuple[Alert, ...] = ()
        self.future_stamps = 0
        self.outdated = 0
        self._restore()
        self._evaluate(self._started_ns)

    @property
    def clock_jumps(self) -> int:
        """How often the clock was set by more than a minute."""
        return self._clock.jumps

    def count(self, requests: Iterable[Request]) -> None:
        """Count requests; of each the first revision only, health routes never."""
        with self._lock:
            now_ns = self._clock()
            for request in requests:
                if request.revision == 1 and not request.health:
                    self._count(request, now_ns)

    def tick(self) -> tuple[Alert, ...]:
        """Evaluate every objective now.

        Returns:
            The alerts that began or ended since the last tick.
        """
        with self._lock:
            now_ns = self._clock()
            before = {alert.fingerprint: alert for alert in self._alerts}
            self._evaluate(now_ns)
            self._evaluated_ns = now_ns
            self._gather()
        firing = {alert.fingerprint for alert in self._alerts}
        began = [alert for alert in self._alerts if alert.fingerprint not in before]
        ended = [
            self._ended(alert, now_ns)
            for fingerprint, alert in before.items()
            if fingerprint not in firing
        ]
        return (*began, *ended)

    def keep(self, notices: Sequence[Notice] = ()) -> None:
        """Write what has changed; requests are counted meanwhile, however slow the disk.

        Args:
            notices: What is to be told of the last tick: kept with it, or neither is.
        """
        now_ns = self._evaluated_ns
        self._unkept_notices += notices
        longest_ns = max((counts.objective.period_ns for counts in self._counts), default=0)
        try:
            self._memory.keep(
                self._unkept,
                {
                    counts.series: _written(state)
                    for counts, state in zip(self._counts, self._states, strict=True)
                },
                {
                    FINE_NS: now_ns - FINE_SPAN_NS - HOUR_NS,
                    COARSE_NS: now_ns - longest_ns - COARSE_EXTRA_NS,
                },
                self._unkept_notices,
            )
        except StoreError as error:
            _log.error("%s", error)
        else:
            self._unkept.clear()
            self._unkept_notices.clear()

    def alerts(self) -> tuple[Alert, ...]:
        """The alerts that fire, as of the last tick."""
        return self._alerts

    def standings(self) -> tuple[Standing, ...]:
        """Where each objective stands, as of the last tick."""
        return self._standings

    def since_start(self) -> list[tuple[Objective, Tally]]:
        """The requests of each objective since this process began, for metrics."""
        return [(counts.objective, counts.since_start) for counts in self._counts]

    def _count(self, request: Request, now_ns: int) -> None:
        end_ns = request.start_ns + request.duration_ns + self._clock.set_back_ns
        for counts in self._of_service.get(request.service, ()):
            if counts.objective.counts(request):
                self.future_stamps += end_ns > now_ns + STEP_NS
                self.outdated += not counts.count(request, min(end_ns, now_ns))

    def _evaluate(self, now_ns: int) -> None:
        standings: list[Standing] = []
        alerts: list[Alert] = []
        for counts, state in zip(self._counts, self._states, strict=True):
            rates = state.tiers.step(counts, now_ns)
            state.silence.step(counts, self._started_ns, now_ns)
            standing = _standing(counts, rates, now_ns)
            standings.append(standing)
            alerts += _alerts(standing, counts, state, now_ns)
        self._standings = tuple(standings)
        self._alerts = tuple(alerts)

    def _ended(self, alert: Alert, now_ns: int) -> Alert:
        name = alert.standing.objective.name
        standing = next(found for found in self._standings if found.objective.name == name)
        return replace(alert, ended_ns=now_ns, bad_ratio=None, window_ns=None, standing=standing)

    def _gather(self) -> None:
        for counts in self._counts:
            for length, at_ns, tally in counts.changes():
                self._unkept[counts.series, length, at_ns] = tally

    def _restore(self) -> None:
        states = self._memory.states()
        for counts, state in zip(self._counts, self._states, strict=True):
            counts.restore(self._memory.slots(counts.series))
            _read(states.get(counts.series, "{}"), state)


def _standing(counts: ObjectiveCounts, rates: tuple[BurnRates, ...], now_ns: int) -> Standing:
    objective = counts.objective
    period = counts.tally(now_ns, objective.period_ns)
    coverage_ratio = counts.coverage_ratio(now_ns, objective.period_ns)
    left_ratio = budget_left_ratio(objective, period, coverage_ratio)
    recent = next((rate.long for rate in rates if rate.rule.factor < 20), None)  # noqa: PLR2004 - the tier of an hour
    return Standing(
        objective=objective,
        rates=rates,
        bad=period.bad,
        total=period.total,
        budget_left_ratio=left_ratio,
        exhaustion_ns=exhaustion_ns(objective, left_ratio, recent),
        last_request_ns=counts.last_ns(),
    )


def _alerts(
    standing: Standing, counts: ObjectiveCounts, state: ObjectiveState, now_ns: int
) -> list[Alert]:
    """The alerts of one objective; a ticket does not begin while a page fires."""
    found: dict[tuple[AlertKind, Severity], BurnRates | None] = {}
    for severity in Severity:
        firing = [
            rate for rate in standing.rates if rate.firing and rate.rule.severity is severity
        ]
        if firing:
            found[AlertKind.BURN, severity] = firing[0]
    if state.silence.firing_ns is not None:
        found[AlertKind.NO_DATA, Severity.PAGE] = None
    ticket, page = (AlertKind.BURN, Severity.TICKET), (AlertKind.BURN, Severity.PAGE)
    if page in found and _key(*ticket) not in state.announced:
        found.pop(ticket, None)
    state.announced = {_key(*which): state.announced.get(_key(*which), now_ns) for which in found}
    evidence = (
        counts.evidence(_evidence_since_ns(list(found.values()), now_ns)) if found else NO_EVIDENCE
    )
    alerts = []
    for (kind, severity), rate in found.items():
        tally = counts.tally(now_ns, rate.rule.long_ns) if rate is not None else None
        alerts.append(
            Alert(
                kind=kind,
                severity=severity,
                started_ns=state.announced[_key(kind, severity)],
                ended_ns=None,
                bad_ratio=tally.bad / tally.total if tally is not None and tally.total else None,
                window_ns=rate.rule.long_ns if rate is not None else None,
                standing=standing,
                evidence=evidence,
            )
        )
    return alerts


def _evidence_since_ns(firing: Sequence[BurnRates | None], now_ns: int) -> int:
    windows_ns = [rate.rule.long_ns for rate in firing if rate is not None]
    return now_ns - max(windows_ns, default=HOUR_NS)


def _key(kind: AlertKind, severity: Severity) -> str:
    return f"{kind}/{severity}"


def _written(state: ObjectiveState) -> str:
    return json.dumps(
        {
            "announced": state.announced,
            "silence": state.silence.firing_ns,
            "tiers": {
                f"{rule.factor:g}": [tier.firing_ns, tier.calm_ns]
                for rule, tier in state.tiers.of_rule.items()
            },
        }
    )


def _read(text: str, state: ObjectiveState) -> None:
    kept = json.loads(text)
    state.announced = dict(kept.get("announced", {}))
    state.silence = SilenceState(firing_ns=kept.get("silence"))
    tiers = kept.get("tiers", {})
    for rule, tier in state.tiers.of_rule.items():
        tier.firing_ns, tier.calm_ns = tiers.get(f"{rule.factor:g}", (None, None))
