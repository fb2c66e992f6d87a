"""Objectives in OpenSLO v1alpha, whose queries ask our metrics."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from latencytrace.model.objective import DAY_NS, HOUR_NS
from latencytrace.service.objectives.documents.indicator import Found, Indicator, Period
from latencytrace.service.objectives.documents.openslo import Target
from latencytrace.service.objectives.documents.pyrra import (
    entries,
    found_objective,
    needed,
    value_of,
)
from latencytrace.service.objectives.documents.selectors import timed
from latencytrace.service.objectives.documents.sources import queried, ratio_of_queries
from latencytrace.service.objectives.documents.values import (
    LONGEST_PERIOD_NS,
    SHORTEST_PERIOD_NS,
    name,
    number,
    ratio_of,
)
from latencytrace.service.objectives.documents.yaml_fields import Field

VERSION: Final = "openslo/v1alpha"
_HINT: Final = (
    "openslo/v1alpha is read; v1 has `timeWindow: [{duration: 30d, isRolling: true}]`, and an "
    "indicator with thresholdMetric or ratioMetric"
)
_UNITS_NS: Final = {
    "Hour": HOUR_NS, "Day": DAY_NS, "Week": 7 * DAY_NS, "Month": 30 * DAY_NS,
    "Quarter": 91 * DAY_NS,
}  # fmt: skip


def is_alpha(document: Field) -> bool:
    return document.child("apiVersion") == VERSION


def objectives_of(document: Field, notes: list[str]) -> Iterator[Found]:
    if document.child("kind") != "SLO":
        notes.append(f"{document.at}: a {document.child('kind')} is not read")
        return
    notes.append(f"{document.at}: {_HINT}")
    name_at = needed(document, "metadata", "name")
    named = value_of(name_at, name)
    service = value_of(needed(document, "spec", "service"), Field.text)
    method = document.part("spec", "budgetingMethod")
    if method is not None and document.child("spec", "budgetingMethod") != "Occurrences":
        method.wrong("names no length of its slices: write apiVersion: openslo/v1, or Occurrences")
    windows = entries(needed(document, "spec", "timeWindows"))
    found_period = value_of(windows[0], _period) if windows else None
    targets = entries(needed(document, "spec", "objectives"))
    for place, target in enumerate(targets, 1):
        indicator = _indicator(document, target, service)
        if indicator is None or name_at is None or named is None or found_period is None:
            continue
        limit_ns = value_of(target, partial(_limit_ns, indicator=indicator))
        ratio_at = needed(target, "target")
        ratio = value_of(ratio_at, partial(ratio_of, whole=1))
        if ratio_at is None or ratio is None or limit_ns is None:
            continue
        found = found_objective(
            indicator,
            name=f"{named}-{place}" if len(targets) > 1 else named,
            text=target.child("displayName") or document.child("metadata", "displayName"),
            service=service,
            target=(ratio, ratio_at),
            name_at=name_at,
            period=found_period,
            threshold_ns=limit_ns,
        )
        if found is not None:
            yield found


def _indicator(document: Field, target: Field, service: str | None) -> Indicator | None:
    metrics = target.part("ratioMetrics")
    if metrics is None:
        query = needed(document, "spec", "indicator", "thresholdMetric", "query")
        found = None if query is None else queried(query, service, "histogram")
        return None if found is None or query is None else value_of(query, lambda _: timed(found))
    name_of = "bad" if metrics.part("bad") is not None else "good"
    part, total = needed(metrics, name_of, "query"), needed(metrics, "total", "query")
    if part is None or total is None:
        return None
    return ratio_of_queries({name_of: part, "total": total}, service)


def _limit_ns(target: Field, indicator: Indicator) -> int | None:
    if indicator.limit_ns is not None:
        return indicator.limit_ns
    compared = Target.read(target)
    return None if compared is None else compared.threshold_ns(indicator)


def _period(window: Field) -> Period:
    count, unit = needed(window, "count"), window.child("unit")
    length_ns = _UNITS_NS.get(unit or "", 0)
    length_ns *= 0 if count is None else round(number(count, "write a whole number"))
    if not SHORTEST_PERIOD_NS <= length_ns <= LONGEST_PERIOD_NS:
        raise ValueError("must have a count and a unit between 1 and 92 days, as 30 and Day")
    return Period(length_ns=length_ns)
