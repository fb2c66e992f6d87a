"""The indicator of an objective, whatever document names it."""

from dataclasses import dataclass
from typing import Final

from latencytrace.model import Calendar, Measure, Objective, RequestStatus, Stage
from latencytrace.model.objective import BurnRule, TimeSlices
from latencytrace.service.objectives.documents.yaml_fields import Field

FAILED: Final = frozenset({RequestStatus.ERROR, RequestStatus.TIMEOUT, RequestStatus.REJECTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Indicator:
    """Requests, and what of them is compared with a limit."""

    measure: Measure
    stage: Stage | None
    service: str | None  # None: the one of the document
    route: str | None
    model: str | None
    version: str | None
    limit_ns: int | None  # of a ratio, which has its own; None: the objective names it
    is_rate: bool = False  # tokens a second, whose inverse is measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The time over which a budget lasts."""

    length_ns: int
    calendar: Calendar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerting:
    """When an objective alerts, and at which sinks."""

    tiers: tuple[BurnRule, ...] = ()
    receivers: tuple[str, ...] = ()
    pages_on_silence: bool = True


NO_ALERTING: Final = Alerting()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An objective, and where it stands."""

    objective: Objective
    at: Field
    name_at: Field


def objective_of(
    indicator: Indicator,
    *,
    name: str,
    display_name: str,
    service: str,
    threshold_ns: int,
    target_ratio: float,
    period: Period,
    alerting: Alerting = NO_ALERTING,
    slices: TimeSlices | None = None,
) -> Objective:
    """Put an objective together."""
    return Objective(
        name=name,
        display_name=display_name,
        service=indicator.service or service,
        route=indicator.route,
        model=indicator.model,
        version=indicator.version,
        measure=indicator.measure,
        stage=indicator.stage,
        threshold_ns=threshold_ns,
        target_ratio=target_ratio,
        period_ns=period.length_ns,
        calendar=period.calendar,
        tiers=alerting.tiers,
        receivers=alerting.receivers,
        pages_on_silence=alerting.pages_on_silence,
        slices=slices,
    )
