"""An alert in words: what, how bad, since when, why, and what to look at."""

from collections.abc import Iterator
from datetime import UTC, datetime

from latencytrace.analysis.slo.traffic import LOOK_NS
from latencytrace.model import Acknowledgement, Alert, AlertKind, BadRequest, Evidence, Objective
from latencytrace.model.alert import MOSTLY
from latencytrace.model.objective import length_text
from latencytrace.model.texts.units import duration, part_of, share, times
from latencytrace.service.answers.sentences.tail import trait_text


def summary(alert: Alert) -> str:
    """One line: the objective, how bad it is, over how long."""
    objective = alert.standing.objective
    of = objective.route or objective.service
    if alert.ended_ns is not None and alert.end_reason is not None:
        lasted = duration(alert.ended_ns - alert.started_ns)
        over = f"the alert on {of} is over: {alert.end_reason}"
        return f"{objective.name}: {over}; it lasted {lasted}"
    if alert.kind is AlertKind.NO_DATA:
        return f"{objective.name}: {of}, which was steady, {_traffic(alert)}"
    if alert.ended_ns is not None:
        lasted = duration(alert.ended_ns - alert.started_ns)
        return f"{objective.name}: {of} meets its objective again; the alert lasted {lasted}"
    rates = (rate for rate in alert.standing.rates if rate.rule.long_ns == alert.window_ns)
    firing = next(rates, None)
    burn = f", burning budget {times(firing.long)} too fast" if firing and firing.long else ""
    if alert.bad_ratio is None or alert.window_ns is None:
        return f"{objective.name}: {of} violates its objective{burn}"
    return (
        f"{objective.name}: {share(alert.bad_ratio)} of {_judged(objective)} "
        f"{_fault(objective, alert)} in the last {length_text(alert.window_ns)}{burn}"
    )


def description(alert: Alert) -> tuple[str, ...]:
    """The lines below: budget, cause, what sets the bad requests apart, three of them."""
    said = _acknowledged(alert.acknowledged)
    return (*said, *_onset(alert), *_budget(alert), *_causes(alert.evidence))


def _acknowledged(said: Acknowledgement | None) -> Iterator[str]:
    if said is not None:
        by = f" by {said.by}" if said.by else ""
        at = datetime.fromtimestamp(said.at_ns // 10**9, UTC)
        note = f": {said.note}" if said.note else ""
        yield f"Acknowledged{by} at {at:%Y-%m-%d %H:%M:%S} UTC{note}."


def _onset(alert: Alert) -> Iterator[str]:
    if alert.onset_ns is not None:
        onset = datetime.fromtimestamp(alert.onset_ns // 10**9, UTC)
        latest = "Last request:" if alert.kind is AlertKind.NO_DATA else "Since about"
        yield f"{latest} {onset:%Y-%m-%d %H:%M:%S} UTC."


def _budget(alert: Alert) -> Iterator[str]:
    standing = alert.standing
    if standing.budget_left_ratio is None:
        return
    objective = standing.objective
    calendar = objective.calendar
    period = f"this {calendar.text}" if calendar else length_text(objective.period_ns)
    left = f"Budget left: {share(standing.budget_left_ratio)} of {period}"
    if standing.exhaustion_ns == 0:
        yield f"{left}: budget spent."
    elif standing.exhaustion_ns is None or alert.ended_ns is not None:
        yield f"{left}."
    else:
        yield f"{left}, runs out in {duration(standing.exhaustion_ns)} at this rate."


def _causes(evidence: Evidence) -> Iterator[str]:
    guilty = evidence.guilty
    if guilty is not None:
        excess = f"{duration(guilty.excess_ns)} more than in good requests"
        part = f"{part_of(guilty.share_ratio)} of the extra time"
        if guilty.share_ratio >= MOSTLY:
            yield f"Slow stage: {guilty.stage}, {excess}, {part}."
        else:
            yield f"No single stage is slow; most is {guilty.stage}: {excess}, {part}."
    if evidence.failed_ratio:
        rest = "; the rest were slow" if evidence.failed_ratio < 1 else ""
        yield f"{share(evidence.failed_ratio)} of bad requests failed{rest}."
    failing = evidence.failing
    if failing is not None:
        error = f" with {failing.error}" if failing.error else ""
        yield (
            f"Failing call: {failing.name} ({failing.stage}){error}, in "
            f"{share(failing.share_ratio)} of the newest failed requests."
        )
    for one in evidence.distinctions:
        yield (
            f"Who: {trait_text(one.trait, one.value)}, {share(one.bad_ratio)} of bad requests, "
            f"{share(one.good_ratio)} of good ones."
        )


def _traffic(alert: Alert) -> str:
    if alert.ended_ns is not None:
        return "comes again"
    if not alert.traffic_ratio:
        return "has fallen silent"
    left = f"{share(alert.traffic_ratio)} of the requests to be expected"
    return f"has lost its traffic: {left} came in the last {length_text(LOOK_NS)}"


def request_text(request: BadRequest) -> str:
    """A bad request in a line: how long it took, and mostly in what."""
    text = f"{duration(request.duration_ns)} ({request.status})"
    if not request.ledger:
        return text
    stage = max(request.ledger, key=lambda one: request.ledger[one])
    return f"{text}, {stage} {duration(request.ledger[stage])}"


def _judged(objective: Objective) -> str:
    """Kind of what is good or bad: requests of a route or service, or slices of time."""
    of = objective.route or objective.service
    if objective.slices is None:
        return of
    return f"the time of {of}, in slices of {length_text(objective.slices.length_ns)},"


def _fault(objective: Objective, alert: Alert) -> str:
    if objective.slices is not None:
        return "was bad"
    if alert.evidence.failed_ratio == 1 or objective.limit_ns is None:
        return "failed"
    measured = "" if objective.measured == "duration" else f"{objective.measured} "
    return f"took {measured}over {duration(objective.threshold_ns)} or failed"
