"""The standing and the alerts of an objective: counts and states in, values out."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from latencytrace.analysis.slo.burn_rate import budget_left_ratio, detection_ns, exhaustion_ns
from latencytrace.model import Alert, AlertKind, BurnRates, Evidence, Objective, Severity, Standing
from latencytrace.model.objective import HOUR_NS, length_text
from latencytrace.service.objectives.calendar import period_bounds_ns
from latencytrace.service.objectives.counts import ObjectiveCounts, series_of
from latencytrace.service.objectives.state import LONGEST_SILENCE_NS, Announced, ObjectiveState

_STEPS = 500  # of a period
NO_EVIDENCE = Evidence(guilty=None, failed_ratio=None, version=None, distinctions=(), slowest=())


def standing_of(counts: ObjectiveCounts, rates: tuple[BurnRates, ...], now_ns: int) -> Standing:
    """The standing of an objective, now that its tiers have decided."""
    objective = counts.objective
    since_ns, until_ns = now_ns - objective.period_ns, None
    if objective.calendar is not None:
        since_ns, until_ns = period_bounds_ns(objective.calendar, now_ns)
    period = counts.tally(now_ns, max(now_ns - since_ns, 1))
    left_ratio = budget_left_ratio(objective, period, _observed_ratio(counts, since_ns, now_ns))
    recent = next((rate.long for rate in rates if rate.rule.factor < 20), None)  # noqa: PLR2004 - the tier of an hour
    gone_ns = exhaustion_ns(objective, left_ratio, recent)
    if until_ns is not None and gone_ns is not None and now_ns + gone_ns > until_ns:
        gone_ns = None  # there is a new one before that
    return Standing(
        objective=objective,
        rates=rates,
        bad=period.bad,
        total=period.total,
        budget_left_ratio=left_ratio,
        exhaustion_ns=gone_ns,
        last_request_ns=counts.last_ns(),
        budget_since_ns=None if until_ns is None else since_ns,
    )


def _observed_ratio(counts: ObjectiveCounts, since_ns: int, now_ns: int) -> float:
    """The share of the period that was observed; of a calendar's, what is to come was not."""
    period_ns = counts.objective.period_ns
    passed_ns = now_ns - since_ns
    step_ns = period_ns // _STEPS  # so that what is known of a window is not asked anew
    window_ns = max(min(passed_ns, period_ns) // step_ns, 1) * step_ns
    return counts.coverage_ratio(now_ns, window_ns) * min(passed_ns / period_ns, 1)


def alerts_of(
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
    state.announced = {
        _key(*which): state.announced.get(_key(*which)) or _announced(standing, rate, now_ns)
        for which, rate in found.items()
    }
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
                onset_ns=state.announced[_key(kind, severity)].onset_ns,
                started_ns=state.announced[_key(kind, severity)].started_ns,
                ended_ns=None,
                bad_ratio=tally.bad / tally.total if tally is not None and tally.total else None,
                window_ns=rate.rule.long_ns if rate is not None else None,
                standing=standing,
                evidence=evidence,
            )
        )
    return alerts


def ended_alert(alert: Alert, standings: Iterable[Standing], now_ns: int) -> Alert:
    """An alert that fires no more, with the reason where the objective is not met again.

    Args:
        alert: As it was announced last.
        standings: Of the objectives of now.
        now_ns: The end.
    """
    before = alert.standing.objective
    named = [one for one in standings if one.objective.name == before.name]
    named = [one for one in named if one.objective.route == before.route] or named
    watched = [one for one in named if series_of(one.objective) == series_of(before)]
    standing = next(iter(watched), alert.standing)
    return replace(
        alert,
        ended_ns=now_ns,
        bad_ratio=None,
        window_ns=None,
        standing=standing,
        end_reason=_end_reason(before, named, standing, now_ns),
    )


def _end_reason(
    before: Objective, named: Sequence[Standing], standing: Standing, now_ns: int
) -> str | None:
    if not named:
        return "the objective left the file"
    if replace(named[0].objective, display_name=before.display_name) != before:
        return "the objective was changed in the file"
    last_ns = standing.last_request_ns
    if last_ns is not None and now_ns - last_ns > LONGEST_SILENCE_NS:
        return f"no request came for {length_text(now_ns - last_ns)}"
    return None


def _announced(standing: Standing, rate: BurnRates | None, now_ns: int) -> Announced:
    """The beginning of an alert that begins now, and the onset of its bad requests."""
    if rate is None:
        return Announced(started_ns=now_ns, onset_ns=standing.last_request_ns)
    bad_ratio = (rate.short or 0.0) * standing.objective.budget_ratio
    lasted_ns = detection_ns(standing.objective, rate.rule, bad_ratio)
    return Announced(started_ns=now_ns, onset_ns=None if lasted_ns is None else now_ns - lasted_ns)


def _evidence_since_ns(firing: Sequence[BurnRates | None], now_ns: int) -> int:
    windows_ns = [rate.rule.long_ns for rate in firing if rate is not None]
    return now_ns - max(windows_ns, default=HOUR_NS)


def _key(kind: AlertKind, severity: Severity) -> str:
    return f"{kind}/{severity}"
