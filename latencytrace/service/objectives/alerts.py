"""The standing and the alerts of an objective: counts and states in, values out."""

import json
import logging
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter, ValidationError

from latencytrace.analysis.slo.burn_rate import budget_left_ratio, burn_rules, exhaustion_ns
from latencytrace.analysis.slo.traffic import LOOK_NS
from latencytrace.model import (
    Acknowledgement,
    Alert,
    AlertKind,
    BadRequest,
    BurnRates,
    Calendar,
    Evidence,
    FailingCall,
    Objective,
    Severity,
    Standing,
)
from latencytrace.model.objective import HOUR_NS
from latencytrace.model.texts.units import duration
from latencytrace.service.objectives.counts import ObjectiveCounts, series_of
from latencytrace.service.objectives.state import LONGEST_SILENCE_NS, Announced, ObjectiveState

_MONTHS_A_YEAR = 12
_LONGEST_MONTH_DAYS = 31


def period_bounds_ns(calendar: Calendar, now_ns: int) -> tuple[int, int]:
    """Return the beginning and the end of the period that a moment lies in."""
    zone = ZoneInfo(calendar.zone)
    first = datetime.fromisoformat(calendar.start)
    now = datetime.fromtimestamp(now_ns / 1e9, zone).replace(tzinfo=None)
    number = (now - first).days // (calendar.days or _LONGEST_MONTH_DAYS * calendar.months)
    # Shorter months, the day of the month, or an hour that the clock skips can make it another.
    while _start_ns(calendar, first, number, zone) > now_ns:
        number -= 1
    while _start_ns(calendar, first, number + 1, zone) <= now_ns:
        number += 1
    return _start_ns(calendar, first, number, zone), _start_ns(calendar, first, number + 1, zone)


def _start_ns(calendar: Calendar, first: datetime, number: int, zone: ZoneInfo) -> int:
    """The beginning of a period by number, as the clocks of its zone have it."""
    if calendar.months:
        months = first.year * _MONTHS_A_YEAR + first.month - 1 + number * calendar.months
        year, month = divmod(months, _MONTHS_A_YEAR)
        day = min(first.day, monthrange(year, month + 1)[1])
        local = first.replace(year=year, month=month + 1, day=day)
    else:
        local = first + timedelta(days=number * calendar.days)
    return int(local.replace(tzinfo=zone).timestamp()) * 10**9


FindFailingCall = Callable[[str, Sequence[BadRequest]], FailingCall | None]
_STEPS = 500  # of a period
NO_EVIDENCE = Evidence(guilty=None, failed_ratio=None, version=None, distinctions=(), slowest=())


def standing_of(counts: ObjectiveCounts, rates: tuple[BurnRates, ...], now_ns: int) -> Standing:
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
        bad=round(period.bad / objective.parts),
        total=period.total // objective.parts,
        budget_left_ratio=left_ratio,
        exhaustion_ns=gone_ns,
        last_request_ns=counts.rings.last_ns(),
        budget_since_ns=None if until_ns is None else since_ns,
    )


def first_standing(objective: Objective, now_ns: int) -> Standing:
    rules = burn_rules(objective)
    rates = tuple(BurnRates(rule=rule, long=None, short=None, firing=False) for rule in rules)
    return standing_of(ObjectiveCounts(objective), rates, now_ns)


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
            found[AlertKind.BURN, severity] = min(firing, key=lambda rate: rate.rule.long_ns)
    if state.silence.firing_ns is not None:
        found[AlertKind.NO_DATA, Severity.PAGE] = None
    ticket, page = (AlertKind.BURN, Severity.TICKET), (AlertKind.BURN, Severity.PAGE)
    if page in found and _key(*ticket) not in state.announced:
        found.pop(ticket, None)
    state.announced = {
        _key(*which): state.announced.get(_key(*which)) or _announced(counts, rate, now_ns)
        for which, rate in found.items()
    }
    return [_alert(which, rate, standing, counts, state, now_ns) for which, rate in found.items()]


def _alert(
    which: tuple[AlertKind, Severity],
    rate: BurnRates | None,
    standing: Standing,
    counts: ObjectiveCounts,
    state: ObjectiveState,
    now_ns: int,
) -> Alert:
    """One alert that fires; its evidence is of what burns now, not of what burnt before."""
    kind, severity = which
    announced = state.announced[_key(kind, severity)]
    tally = counts.tally(now_ns, rate.rule.long_ns) if rate is not None else None
    since_ns = announced.onset_ns if kind is AlertKind.BURN else now_ns - HOUR_NS
    evidence = counts.latest.evidence(now_ns - HOUR_NS if since_ns is None else since_ns)
    if kind is AlertKind.NO_DATA:  # what was slow before is no reason that nothing comes
        failed = evidence.slowest if evidence.mostly_failed else ()
        evidence = replace(evidence, guilty=None, version=None, distinctions=(), slowest=failed)
    return Alert(
        kind=kind,
        severity=severity,
        onset_ns=announced.onset_ns,
        started_ns=announced.started_ns,
        ended_ns=None,
        bad_ratio=tally.bad / tally.total if tally is not None and tally.total else None,
        window_ns=rate.rule.long_ns if rate is not None else None,
        standing=standing,
        evidence=evidence,
        traffic_ratio=None if rate is not None else _traffic_ratio(counts, state, now_ns),
        acknowledged=announced.acknowledged,
    )


def acknowledge(state: ObjectiveState, alert: Alert, said: Acknowledgement | None) -> Alert | None:
    """Acknowledge an objective's alert; None: it fires no more."""
    key = _key(alert.kind, alert.severity)
    announced = state.announced.get(key)
    if announced is None or announced.started_ns != alert.started_ns:
        return None
    state.announced[key] = replace(announced, acknowledged=said)
    return replace(alert, acknowledged=said)


def with_failing_call(alert: Alert, find: FindFailingCall) -> Alert:
    """The alert with the call that failed, where most requests did."""
    evidence = alert.evidence
    if not evidence.mostly_failed:
        return alert
    found = find(series_of(alert.standing.objective), evidence.slowest)
    return replace(alert, evidence=replace(evidence, failing=found))


def ended_alert(alert: Alert, standings: Iterable[Standing], now_ns: int) -> Alert:
    """An alert that fires no more, with the reason where the objective is not met again."""
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
        end_reason=_end_reason(alert, named, standing, now_ns),
    )


def _end_reason(
    alert: Alert, named: Sequence[Standing], standing: Standing, now_ns: int
) -> str | None:
    before = alert.standing.objective
    if not named:
        return "the objective left the file"
    if replace(named[0].objective, display_name=before.display_name) != before:
        return "the objective was changed in the file"
    last_ns = standing.last_request_ns
    if last_ns is not None and now_ns - last_ns > LONGEST_SILENCE_NS:
        return f"no request came for {duration(now_ns - last_ns)}"
    if alert.kind is AlertKind.NO_DATA and now_ns - alert.started_ns > LONGEST_SILENCE_NS:
        return f"few requests have come for {duration(now_ns - alert.started_ns)}: it is usual"
    return None


def _announced(counts: ObjectiveCounts, rate: BurnRates | None, now_ns: int) -> Announced:
    """The beginning of an alert that begins now, and the onset of its bad requests."""
    onset_ns = (
        counts.rings.last_ns() if rate is None else counts.burning_since_ns(rate.rule, now_ns)
    )
    return Announced(started_ns=now_ns, onset_ns=onset_ns)


def _traffic_ratio(counts: ObjectiveCounts, state: ObjectiveState, now_ns: int) -> float | None:
    """The requests of the last ten minutes by the number expected."""
    if not state.silence.expected:
        return None
    return counts.requests(now_ns, LOOK_NS).total / state.silence.expected


def _key(kind: AlertKind, severity: Severity) -> str:
    return f"{kind}/{severity}"


_OBJECTIVE = TypeAdapter(Objective)
_log = logging.getLogger(__name__)


def earlier_alerts(states: Mapping[str, str]) -> Iterator[Alert]:
    """Yield the alerts announced and not over, of objectives that may have left the file.

    Args:
        states: The state kept of each series.
    """
    for series, text in states.items():
        try:
            yield from _alerts(json.loads(text))
        except ValidationError as error:
            faults = "; ".join(
                f"{one['loc'][-1]}: {one['msg']}, not {one['input']!r}" for one in error.errors()
            )
            _log.warning("what was kept of %s is not understood: %s", series, faults)


def kept_objective(text: str) -> Objective | None:
    """Return the objective whose state was kept; None: it is not understood."""
    try:
        return _OBJECTIVE.validate_python(json.loads(text).get("objective"))
    except ValidationError:
        return None


def _alerts(kept: Mapping[str, object]) -> list[Alert]:
    match kept:
        case {"objective": dict() as fields, "announced": dict() as announced}:
            standing = _standing(_OBJECTIVE.validate_python(fields))
            return [
                _restored(key, Announced.read(began), standing) for key, began in announced.items()
            ]
        case _:
            return []


def _standing(objective: Objective) -> Standing:
    return Standing(
        objective=objective,
        rates=(),
        bad=0,
        total=0,
        budget_left_ratio=None,
        exhaustion_ns=None,
        last_request_ns=None,
    )


def _restored(key: str, began: Announced, standing: Standing) -> Alert:
    kind, _, severity = key.partition("/")
    return Alert(
        kind=AlertKind(kind),
        severity=Severity(severity),
        onset_ns=began.onset_ns,
        started_ns=began.started_ns,
        ended_ns=None,
        bad_ratio=None,
        window_ns=None,
        standing=standing,
        evidence=NO_EVIDENCE,
        acknowledged=began.acknowledged,
    )
