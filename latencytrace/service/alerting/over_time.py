"""Budgets and burn rates over time, as documents."""

from typing import Final

import numpy as np
from typing_extensions import TypedDict

from latencytrace.analysis.slo.over_time import (
    Counts,
    Slots,
    budget_over_time,
    burn_over_time,
)
from latencytrace.model import BurnRates, Standing
from latencytrace.service.answers.documents import document
from latencytrace.service.objectives.alerts import period_bounds_ns
from latencytrace.service.objectives.counts import ObjectiveCounts, series_of
from latencytrace.service.objectives.evaluator import Evaluator

COLUMNS: Final = 120
WINDOWS_SHOWN: Final = 3  # long windows of a tier


class BudgetPointDocument(TypedDict):
    """The budget that was left at a moment; null: no request had come."""

    at: str
    budget_left_ratio: float | None


class BurnPointDocument(TypedDict):
    """The burn rates of a tier's windows that ended at a moment; null: no traffic."""

    at: str
    long: float | None
    short: float | None


class TierOverTimeDocument(TypedDict):
    """The burn rates of a tier over three of its long windows."""

    factor: float
    severity: str
    long_ns: int
    short_ns: int
    points: list[BurnPointDocument]


class ObjectiveOverTimeDocument(TypedDict):
    """An objective's budget over its period, and how fast it burnt."""

    name: str
    service: str
    route: str | None
    period_ns: int
    since: str  # of the period, or the first request of it where that came later
    until: str  # of a period by the calendar its end, else now
    budget: list[BudgetPointDocument]
    burn_rates: list[TierOverTimeDocument]


class ObjectivesOverTimeDocument(TypedDict):
    """All objectives over time."""

    objectives: list[ObjectiveOverTimeDocument]


def objectives_over_time(evaluator: Evaluator) -> ObjectivesOverTimeDocument:
    """`GET /objectives/timeline`."""
    now_ns = evaluator.clock()
    watched = {counts.series: counts for counts, _ in evaluator.watched.entries}
    found = [(one, watched.get(series_of(one.objective))) for one in evaluator.standings()]
    return {
        "objectives": [
            _objective(standing, counts, now_ns)
            for standing, counts in found
            if counts is not None
        ]
    }


def _objective(
    standing: Standing, counts: ObjectiveCounts, now_ns: int
) -> ObjectiveOverTimeDocument:
    objective = standing.objective
    since_ns, until_ns = now_ns - objective.period_ns, now_ns
    if objective.calendar is not None:
        since_ns, until_ns = period_bounds_ns(objective.calendar, now_ns)
    slots = _observed(counts, since_ns, now_ns)
    if slots.total.any():
        since_ns = max(slots.since_ns, since_ns)
    return document(
        ObjectiveOverTimeDocument,
        objective,
        since=str(since_ns),
        until=str(until_ns),
        budget=_budget(standing, slots, now_ns),
        burn_rates=[_tier(rate, counts, now_ns) for rate in standing.rates],
    )


def _observed(counts: ObjectiveCounts, since_ns: int, now_ns: int) -> Slots:
    """The slots of a period from its first request on, shorter ones where that is recent."""
    slots = counts.slots(now_ns, now_ns - since_ns)
    for _ in range(2):  # of a short time the slots are shorter, and the first is another
        seen = np.flatnonzero(slots.total)
        if len(seen):
            since_ns = max(slots.end_ns(int(seen[0])), since_ns)
            slots = counts.slots(now_ns, now_ns - since_ns)
    return slots


def _budget(standing: Standing, slots: Slots, now_ns: int) -> list[BudgetPointDocument]:
    if standing.budget_left_ratio is None:
        return []
    found = budget_over_time(slots, standing.budget_left_ratio, slots.columns(COLUMNS))
    return [
        {"at": str(min(at_ns, now_ns)), "budget_left_ratio": left_ratio}
        for at_ns, left_ratio in found
    ]


def _tier(rate: BurnRates, counts: ObjectiveCounts, now_ns: int) -> TierOverTimeDocument:
    rule, budget_ratio = rate.rule, counts.objective.budget_ratio
    shown_ns = WINDOWS_SHOWN * rule.long_ns
    slots = counts.slots(now_ns, shown_ns + rule.long_ns)
    ends = _columns(len(slots.bad), shown_ns // slots.slot_ns)
    long, short = (
        burn_over_time(slots, window_ns, budget_ratio, ends)
        for window_ns in (rule.long_ns, rule.short_ns)
    )
    points: list[BurnPointDocument] = [
        {"at": str(min(slots.end_ns(end), now_ns)), "long": one, "short": other}
        for end, one, other in zip(ends.tolist(), long, short, strict=True)
    ]
    if points:  # the numbers that the alert was decided by
        points[-1] = {"at": points[-1]["at"], "long": rate.long, "short": rate.short}
    return document(TierOverTimeDocument, rule, points=points)


def _columns(count: int, shown: int) -> Counts:
    """Where columns end in the last slots, of which so many are shown."""
    first = max(count - shown, 0)
    number = min(COLUMNS, count - first)
    return np.linspace(first, count, number + 1).round().astype(np.int64)[1:]
