"""Pyrra's objectives, whose metrics are ours.

Source: Pyrra's `pyrra.dev/v1alpha1` (github.com/pyrra-dev/pyrra).
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from latencytrace.service.objectives.documents.indicator import Found, Indicator, Period
from latencytrace.service.objectives.documents.others import (
    found_objective,
    grouped,
    needed,
    value_of,
)
from latencytrace.service.objectives.documents.selectors import timed
from latencytrace.service.objectives.documents.sources import queried, ratio_of_queries
from latencytrace.service.objectives.documents.values import name, period, ratio_of
from latencytrace.service.objectives.documents.yaml_fields import Field

API: Final = "pyrra.dev/"
_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_UNITS_NS: Final = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9}
_PARTS: Final = {"ratio": ("errors", "bad"), "latency": ("success", "good")}


def is_pyrra(document: Field) -> bool:
    """Tell whether a document is one of Pyrra's."""
    return (document.child("apiVersion") or "").startswith(API)


def objectives_of(document: Field, notes: list[str]) -> Iterator[Found]:
    """Read the objective of a document; its faults are noted."""
    if document.child("kind") != "ServiceLevelObjective":
        document.wrong(f"is Pyrra's {document.child('kind')}: write a ServiceLevelObjective")
        return
    name_at = needed(document, "metadata", "name")
    named = value_of(name_at, name)
    target_at = needed(document, "spec", "target")
    target = value_of(target_at, partial(ratio_of, whole=100))
    found_period = value_of(needed(document, "spec", "window"), period)
    indicator_at = needed(document, "spec", "indicator")
    if indicator_at is None or name_at is None or target_at is None:
        return
    found = _indicator(indicator_at)
    if found is None or named is None or target is None or found_period is None:
        return
    alerting = document.part("spec", "alerting")
    if alerting is not None:
        notes.append(
            f"{alerting.at}: alerting is not read: the tiers are those of every objective"
        )
    indicator, threshold_ns = found
    objective = found_objective(
        indicator,
        name=named,
        text=document.child("spec", "description"),
        service=None,
        target=(target, target_at),
        name_at=name_at,
        period=Period(length_ns=found_period[0]),
        threshold_ns=threshold_ns,
    )
    if objective is not None:
        yield objective


def _indicator(field: Field) -> tuple[Indicator, int | None] | None:
    """The indicator, and its limit where it has none of its own."""
    kind = next(iter(sorted(field.names() & {*_PARTS, "latencyNative", "bool_gauge"})), None)
    at = None if kind is None else field.part(kind)
    if kind is None or at is None:
        field.wrong("has no indicator that is read: write ratio, latency or latencyNative")
        return None
    if kind == "bool_gauge":
        at.wrong("is a gauge: requests are counted, write ratio of latencytrace_requests_total")
        return None
    if kind == "latencyNative":
        return _of_native(at)
    part, meaning = _PARTS[kind]
    metrics = needed(at, part, "metric"), needed(at, "total", "metric")
    if metrics[0] is None or metrics[1] is None:
        return None
    indicator = ratio_of_queries({meaning: metrics[0], "total": metrics[1]}, None)
    found = None if indicator is None else grouped(indicator, at.part("grouping"))
    return None if found is None else (found, None)


def _of_native(at: Field) -> tuple[Indicator, int | None] | None:
    limit_ns = value_of(needed(at, "latency"), _length_ns)
    metric = needed(at, "total", "metric")
    query = None if metric is None else queried(metric, None, "histogram")
    if query is None or limit_ns is None or metric is None:
        return None
    indicator = value_of(metric, lambda _: timed(query))
    found = None if indicator is None else grouped(indicator, at.part("grouping"))
    return None if found is None else (found, limit_ns)


def _length_ns(field: Field) -> int:
    found = _LENGTH.fullmatch(field.text())
    if found is None:
        raise ValueError(f"is {field.text()!r}: write a length, as 200ms or 2s")
    return round(float(found[1]) * _UNITS_NS[found[2]])
