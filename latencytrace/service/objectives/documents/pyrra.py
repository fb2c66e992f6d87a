"""Pyrra's objectives, whose metrics are ours.

Source: Pyrra's `pyrra.dev/v1alpha1` (github.com/pyrra-dev/pyrra).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from latencytrace.model.objective import EACH_ROUTE
from latencytrace.service.objectives.documents.indicator import (
    NO_ALERTING,
    Alerting,
    Found,
    Indicator,
    Period,
    objective_of,
)
from latencytrace.service.objectives.documents.selectors import timed
from latencytrace.service.objectives.documents.sources import queried, ratio_of_queries
from latencytrace.service.objectives.documents.values import name, period, ratio_of
from latencytrace.service.objectives.documents.yaml_fields import Field

_T = TypeVar("_T")


def needed(field: Field, *path: str) -> Field | None:
    """The field at a path; None: it is missing, which is noted."""
    found = field.part(*path)
    if found is None:
        field.wrong(f"has no {'.'.join(path)!r}: add it")
    return found


def value_of(field: Field | None, read: Callable[[Field], _T]) -> _T | None:
    """Read a field; None: it is missing or wrong, which is noted."""
    if field is None:
        return None
    try:
        return read(field)
    except ValueError as error:
        field.wrong(str(error))
        return None


def entries(field: Field | None) -> Sequence[Field]:
    """The entries of a list; none where it is missing or wrong, which is noted."""
    return value_of(field, Field.items) or ()


def grouped(indicator: Indicator, labels: Field | None) -> Indicator | None:
    """An indicator of each route, where a document groups by it."""
    for one in entries(labels) if labels is not None else ():
        named = value_of(one, Field.text)
        if named != "route":
            one.wrong(f"is {named!r}: objectives are grouped by route only, delete it")
            return None
        indicator = replace(indicator, route=EACH_ROUTE)
    return indicator


def found_objective(
    indicator: Indicator,
    *,
    name: str,
    text: str | None,
    service: str | None,
    target: tuple[float, Field],
    name_at: Field,
    period: Period,
    threshold_ns: int | None = None,
    alerting: Alerting = NO_ALERTING,
) -> Found | None:
    """Put an objective together; None: it has no service, or no limit, which is noted."""
    ratio, at = target
    limit_ns = indicator.limit_ns if indicator.limit_ns is not None else threshold_ns
    named = indicator.service or service
    if named is None or limit_ns is None:
        name_at.wrong('is of no service: write service="NAME" among the labels of its metrics')
        return None
    objective = objective_of(
        indicator,
        name=name,
        display_name=text or name,
        service=named,
        threshold_ns=limit_ns,
        target_ratio=ratio,
        period=period,
        alerting=alerting,
    )
    return Found(objective=objective, at=at, name_at=name_at)


API: Final = "pyrra.dev/"
_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_UNITS_NS: Final = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9}
_PARTS: Final = {"ratio": ("errors", "bad"), "latency": ("success", "good")}


def is_pyrra(document: Field) -> bool:
    return (document.child("apiVersion") or "").startswith(API)


def objectives_of(document: Field, notes: list[str]) -> Iterator[Found]:
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
