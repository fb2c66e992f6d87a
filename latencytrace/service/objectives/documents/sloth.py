"""Sloth's service levels, whose queries ask our metrics.

Source: Sloth's `prometheus/v1` and `sloth.slok.dev/v1` (github.com/slok/sloth).
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from latencytrace.analysis.slo.burn_rate import scaled_rules
from latencytrace.model import Severity
from latencytrace.model.objective import DAY_NS
from latencytrace.service.objectives.documents.indicator import (
    NO_ALERTING,
    Alerting,
    Found,
    Period,
)
from latencytrace.service.objectives.documents.pyrra import (
    entries,
    found_objective,
    needed,
    value_of,
)
from latencytrace.service.objectives.documents.sources import ratio_of_queries
from latencytrace.service.objectives.documents.values import name, ratio_of
from latencytrace.service.objectives.documents.yaml_fields import Field

VERSION: Final = "prometheus/v1"
API: Final = "sloth.slok.dev/"
KIND: Final = "PrometheusServiceLevel"
PERIOD: Final = Period(length_ns=30 * DAY_NS)  # which Sloth has unless its command says otherwise


def is_sloth(document: Field) -> bool:
    return document.child("version") == VERSION or (document.child("apiVersion") or "").startswith(
        API
    )


def objectives_of(document: Field, notes: list[str]) -> Iterator[Found]:
    """Read the service levels of a document; its faults are noted."""
    kind = document.child("kind")
    if kind not in {None, KIND}:
        document.wrong(
            f"is Sloth's {kind}, which is not read: tiers scale with the period, and OpenSLO's "
            "AlertPolicy names others"
        )
        return
    root = document if kind is None else needed(document, "spec")
    if root is None:
        return
    service = value_of(needed(root, "service"), name)
    for level in entries(needed(root, "slos")):
        found = _objective(level, service, notes)
        if found is not None:
            yield found


def _objective(level: Field, service: str | None, notes: list[str]) -> Found | None:
    name_at, target_at = needed(level, "name"), needed(level, "objective")
    named = value_of(name_at, name)
    target = value_of(target_at, partial(ratio_of, whole=100))
    sli = needed(level, "sli")
    if name_at is None or target_at is None or sli is None:
        return None
    for other in ("raw", "plugin"):
        field = sli.part(other)
        if field is not None:
            field.wrong(
                "is not read: write events, with error_query and total_query of our metrics, as "
                f'latencytrace_requests_total{{service="{service}",status!="ok"}}'
            )
            return None
    events = needed(sli, "events")
    if events is None:
        return None
    errors, total = (
        events.part(f"{part}_query") or needed(events, f"{part}Query")
        for part in ("error", "total")
    )
    if errors is None or total is None:
        return None
    indicator = ratio_of_queries({"bad": errors, "total": total}, service)
    if indicator is None or named is None or target is None:
        return None
    return found_objective(
        indicator,
        name=f"{service}-{named}",
        text=level.child("description"),
        service=service,
        target=(target, target_at),
        name_at=name_at,
        period=PERIOD,
        alerting=_alerting(level, notes),
    )


def _alerting(level: Field, notes: list[str]) -> Alerting:
    """The tiers that are not switched off."""
    off = {
        severity
        for severity in Severity
        for field in (f"{severity}_alert", f"{severity}Alert")
        if level.child("alerting", field, "disable") == "true"
    }
    if off == set(Severity):
        notes.append(f"{level.at}: alerts of a single objective cannot be off: they stay on")
        return NO_ALERTING
    rules = scaled_rules(PERIOD.length_ns)
    left = tuple(rule for rule in rules if rule.severity not in off)
    return Alerting(tiers=left) if off else NO_ALERTING
