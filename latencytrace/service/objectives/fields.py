"""The fields of an objective in OpenSLO v1: of which requests, what is measured, how surely."""

import math
import re
from collections.abc import Iterator
from typing import Annotated, Never, Self

from pydantic import AfterValidator, BeforeValidator, InstanceOf, PlainValidator, model_validator

from latencytrace.model import Measure, Objective, Stage
from latencytrace.model.objective import DAY_NS, HOUR_NS, MINUTE_NS
from latencytrace.service.objectives.yaml_fields import Field, Part

SHORTEST_PERIOD_NS, LONGEST_PERIOD_NS = DAY_NS, 92 * DAY_NS
LONGEST_THRESHOLD_S = 86_400
LEAST_BUDGET_RATIO = 1e-6
SOURCE_TYPE = "latencytrace"
OTHER_KINDS = (
    "AlertCondition", "AlertNotificationTarget", "AlertPolicy", "DataSource", "SLI", "Service",
)  # fmt: skip

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_UNITS_NS = {"m": MINUTE_NS, "h": HOUR_NS, "d": DAY_NS, "w": 7 * DAY_NS}
_PERIOD = re.compile(r"(\d{1,5})([mhdw])")
_MEASURES = tuple(measure.value for measure in Measure if measure is not Measure.STAGE)
_TRUTHS = {"true": True, "false": False}
_ROUNDING = 1e-9


def _one_of(*known: str, why: str = "") -> PlainValidator:
    """Note another text; the rest of its mapping is read nevertheless."""

    def read(field: Field) -> str:
        text = field.text()
        if text not in known:
            field.wrong(f"is {text!r}: {why}write {' or '.join(known)}")
        return text

    return PlainValidator(read)


def _refused(problem: str, instead: str) -> PlainValidator:
    """Refuse a field; the one to write instead is not said to be missing, too."""

    def read(_: Field) -> Never:
        raise ValueError(problem, instead)

    return PlainValidator(read)


def _name(field: Field) -> str:
    if not _NAME.fullmatch(field.text()):
        raise ValueError(f"is {field.text()!r}: write letters, digits, `-`, `_` and `.`, up to 63")
    return field.text()


def _truth(field: Field) -> bool:
    value = _TRUTHS.get(field.text().lower())
    if value is None:
        raise ValueError(f"is {field.text()!r}: write true or false")
    return value


def _number(field: Field, advice: str) -> float:
    text = field.text()
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"is {text!r}, no number: {advice}")
    return value


def _measure(field: Field) -> tuple[Measure, Stage | None]:
    text = field.text()
    kind, separator, stage = text.partition(":")
    if kind == Measure.STAGE and separator:
        if stage not in set(Stage):
            raise ValueError(f"names no stage {stage!r}: there are {', '.join(Stage)}")
        return Measure.STAGE, Stage(stage)
    if text not in _MEASURES:
        raise ValueError(f"is {text!r}: write {', '.join(_MEASURES)} or stage:NAME")
    return Measure(text), None


def _period_ns(field: Field) -> int:
    found = _PERIOD.fullmatch(field.text())
    if found is None:
        raise ValueError(f"is {field.text()!r}: write days or weeks, as 30d or 4w")
    period_ns = int(found.group(1)) * _UNITS_NS[found.group(2)]
    if not SHORTEST_PERIOD_NS <= period_ns <= LONGEST_PERIOD_NS:
        raise ValueError(f"is {field.text()!r}: write between 1d and 92d")
    return period_ns


def _threshold_ns(field: Field) -> int:
    advice = "write seconds, as 2.0 or 0.3"
    seconds = _number(field, advice)
    if seconds <= 0:
        raise ValueError(f"is {field.text()}: write seconds above 0, as 2.0 or 0.3")
    if round(seconds * 1e9) == 0:
        raise ValueError(f"is {field.text()}, less than a nanosecond: {advice}")
    if seconds > LONGEST_THRESHOLD_S:
        raise ValueError(f"is {field.text()}, longer than a day: {advice}")
    return round(seconds * 1e9)


def _share(whole: int) -> PlainValidator:
    """Read a share of so much as a ratio."""

    def read(field: Field) -> float:
        target = _number(field, f"write a share, as {0.99 * whole:g}")
        if not 0 < target < whole:
            raise ValueError(
                f"is {field.text()}: write a share above 0 and below {whole}, as {0.99 * whole:g}"
            )
        if 1 - target / whole < LEAST_BUDGET_RATIO - _ROUNDING:
            highest = f"{whole * (1 - LEAST_BUDGET_RATIO):.6g}"
            raise ValueError(
                f"is {field.text()}: that allows less than one bad request in a million, which "
                f"nobody can keep; write {highest} at most"
            )
        return target / whole

    return PlainValidator(read)


_NO_RATIO = _refused(
    f"is for other tools: write a thresholdMetric of `type: {SOURCE_TYPE}`", "thresholdMetric"
)
_NO_REFERENCE = _refused("is not followed: write the indicator here", "indicator")
_NO_SLICES = _refused("is for time slices: requests are counted, delete it", "target")
_Text = Annotated[str, PlainValidator(Field.text)]
_Items = BeforeValidator(Field.items)


class Document(Part):
    """A document of any kind."""

    api_version: Annotated[str, _one_of("openslo/v1")]
    kind: Annotated[str, _one_of("SLO", *OTHER_KINDS)]
    metadata: InstanceOf[Field] | None = None
    spec: InstanceOf[Field] | None = None


class Metadata(Part, extra="allow"):
    """The names of an objective."""

    name: Annotated[str, PlainValidator(_name)]
    display_name: _Text | None = None
    labels: object = None
    annotations: object = None


class _Measured(Part):
    measure: Annotated[tuple[Measure, Stage | None], PlainValidator(_measure)]
    route: _Text | None = None
    model: _Text | None = None
    version: _Text | None = None


class _Source(Part):
    metric_source_ref: object = None
    type: Annotated[str, _one_of(SOURCE_TYPE)]
    spec: _Measured


class _Metric(Part):
    metric_source: _Source


class _Threshold(Part):
    description: object = None
    threshold_metric: _Metric
    ratio_metric: Annotated[None, _NO_RATIO] = None


class _Indicator(Part):
    metadata: object = None
    spec: _Threshold


class _Window(Part):
    duration: Annotated[int, PlainValidator(_period_ns)]
    is_rolling: Annotated[bool, PlainValidator(_truth)]
    calendar: object = None

    @model_validator(mode="after")
    def _rolls(self) -> Self:
        if self.calendar is not None or not self.is_rolling:
            raise ValueError("must roll: write `isRolling: true` and no calendar")
        return self


def _one_window(windows: list[_Window]) -> list[_Window]:
    for window in windows[1:]:
        window.at.wrong("is one too many: an objective has one period")
    return windows


class _Target(Part):
    display_name: _Text | None = None
    op: Annotated[str, _one_of("lte", why="a request is good up to the value, ")]
    value: Annotated[int, PlainValidator(_threshold_ns)]
    target: Annotated[float, _share(1)] | None = None
    target_percent: Annotated[float, _share(100)] | None = None
    time_slice_target: Annotated[None, _NO_SLICES] = None
    time_slice_window: Annotated[None, _NO_SLICES] = None

    @model_validator(mode="after")
    def _has_one_target(self) -> Self:
        if self.target is None and self.target_percent is None:
            raise ValueError("has no 'target': add it")
        if self.target is not None and self.target_percent is not None:
            raise ValueError("has target beside targetPercent: delete one")
        return self


class Spec(Part):
    """An objective, or several of one indicator."""

    service: _Text
    description: object = None
    indicator: _Indicator
    indicator_ref: Annotated[None, _NO_REFERENCE] = None
    time_window: Annotated[list[_Window], _Items, AfterValidator(_one_window)]
    budgeting_method: Annotated[str, _one_of("Occurrences", why="requests are counted, ")]
    objectives: Annotated[list[_Target], _Items]
    alert_policies: object = None

    def named(self, metadata: Metadata) -> Iterator[tuple[Objective, Field]]:
        """The objectives, each with where it stands."""
        measured = self.indicator.spec.threshold_metric.metric_source.spec
        measure, stage = measured.measure
        several = len(self.objectives) > 1
        for place, target in enumerate(self.objectives, 1):
            objective = Objective(
                name=f"{metadata.name}-{place}" if several else metadata.name,
                display_name=target.display_name or metadata.display_name or metadata.name,
                service=self.service,
                route=measured.route,
                model=measured.model,
                version=measured.version,
                measure=measure,
                stage=stage,
                threshold_ns=target.value,
                target_ratio=target.target or target.target_percent or 0.0,  # one is there
                period_ns=self.time_window[0].duration,
            )
            yield objective, target.at
