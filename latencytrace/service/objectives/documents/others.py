"""What documents of other tools have in common: fields by path, noted where they are missing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from latencytrace.model.objective import EACH_ROUTE
from latencytrace.service.objectives.documents.indicator import (
    NO_ALERTING,
    Alerting,
    Found,
    Indicator,
    Period,
    objective_of,
)
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


def found_objective(  # noqa: PLR0913 - its parts
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
