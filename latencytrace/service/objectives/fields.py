"""Reads what one document of an objectives file promises: of which requests, what, how surely."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from latencytrace.model import Measure, Objective, Stage
from latencytrace.model.objective import DAY_NS, HOUR_NS, MINUTE_NS
from latencytrace.service.objectives.yaml_fields import Field, Fields

SHORTEST_PERIOD_NS, LONGEST_PERIOD_NS = DAY_NS, 92 * DAY_NS
LONGEST_THRESHOLD_S = 86_400
LEAST_BUDGET_RATIO = 1e-6
SOURCE_TYPE = "latencytrace"
SPEC = (
    "service", "description", "indicator", "indicatorRef", "timeWindow", "budgetingMethod",
    "objectives", "alertPolicies",
)  # fmt: skip

_UNITS_NS = {"m": MINUTE_NS, "h": HOUR_NS, "d": DAY_NS, "w": 7 * DAY_NS}
_PERIOD = re.compile(r"(\d{1,5})([mhdw])")
_OBJECTIVE = (
    "displayName", "op", "value", "target", "targetPercent", "timeSliceTarget",
    "timeSliceWindow",
)  # fmt: skip
_MEASURES = tuple(measure.value for measure in Measure if measure is not Measure.STAGE)
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class _Indicator:
    """What is measured of which requests."""

    measure: Measure
    stage: Stage | None
    route: str | None
    model: str | None
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """How many of them within which time."""

    at: Field
    title: str | None
    threshold_ns: int
    target_ratio: float


def promises(
    spec: Fields, name: str | None, title: str | None
) -> Iterator[tuple[Objective, Field]]:
    """The objectives of a document, each with where it stands; none if anything is wrong.

    Args:
        spec: Its fields.
        name: What it is called; None: that is wrong, but the rest is read nevertheless.
        title: For people.
    """
    service = spec.read("service", Field.text)
    spec.read("budgetingMethod", _counts_requests)
    period_ns = spec.read("timeWindow", _period_ns)
    indicator = spec.of.read(lambda _: _indicator(spec))
    targets = spec.read("objectives", _targets)
    if not (name and service and period_ns and indicator and targets):
        return
    for place, target in enumerate(targets, 1):
        objective = Objective(
            name=name if len(targets) == 1 else f"{name}-{place}",
            display_name=target.title or title or name,
            service=service,
            route=indicator.route,
            model=indicator.model,
            version=indicator.version,
            measure=indicator.measure,
            stage=indicator.stage,
            threshold_ns=target.threshold_ns,
            target_ratio=target.target_ratio,
            period_ns=period_ns,
        )
        yield objective, target.at


def _counts_requests(method: Field) -> None:
    if method.text() != "Occurrences":
        raise method.wrong(f"is {method.text()!r}: requests are counted, write Occurrences")


def _indicator(spec: Fields) -> _Indicator | None:
    if "indicatorRef" in spec.found:
        raise spec.found["indicatorRef"].wrong("is not followed: write the indicator here")
    indicator = spec.needed("indicator").fields(("metadata", "spec"))
    threshold = indicator.needed("spec").fields(("description", "thresholdMetric", "ratioMetric"))
    if "ratioMetric" in threshold.found:
        raise threshold.found["ratioMetric"].wrong(
            f"is for other tools: write a thresholdMetric of `type: {SOURCE_TYPE}`"
        )
    metric = threshold.needed("thresholdMetric").fields(("metricSource",))
    source = metric.needed("metricSource").fields(("metricSourceRef", "type", "spec"))
    source.read("type", lambda kind: kind.one_of((SOURCE_TYPE,)))
    measured = source.needed("spec").fields(("measure", "route", "model", "version"))
    measure = measured.read("measure", _measure)
    named = [measured.text_or_none(name) for name in ("route", "model", "version")]
    if measure is None:
        return None
    return _Indicator(
        measure=measure[0], stage=measure[1], route=named[0], model=named[1], version=named[2]
    )


def _measure(field: Field) -> tuple[Measure, Stage | None]:
    text = field.text()
    kind, separator, stage = text.partition(":")
    if kind == Measure.STAGE and separator:
        if stage not in set(Stage):
            raise field.wrong(f"names no stage {stage!r}: there are {', '.join(Stage)}")
        return Measure.STAGE, Stage(stage)
    if text not in _MEASURES:
        raise field.wrong(f"is {text!r}: write {', '.join(_MEASURES)} or stage:NAME")
    return Measure(text), None


def _period_ns(field: Field) -> int:
    windows = field.items()
    if len(windows) > 1:
        raise windows[1].wrong("is one too many: an objective has one period")
    fields = windows[0].fields(("duration", "isRolling", "calendar"))
    if "calendar" in fields.found or not fields.needed("isRolling").truth():
        raise windows[0].wrong("must roll: write `isRolling: true` and no calendar")
    duration = fields.needed("duration")
    found = _PERIOD.fullmatch(duration.text())
    if found is None:
        raise duration.wrong(f"is {duration.text()!r}: write days or weeks, as 30d or 4w")
    period_ns = int(found.group(1)) * _UNITS_NS[found.group(2)]
    if not SHORTEST_PERIOD_NS <= period_ns <= LONGEST_PERIOD_NS:
        raise duration.wrong(f"is {duration.text()!r}: write between 1d and 92d")
    return period_ns


def _targets(field: Field) -> list[_Target]:
    found = [item.read(_target) for item in field.items()]
    return [target for target in found if target is not None]


def _target(item: Field) -> _Target | None:
    fields = item.fields(_OBJECTIVE)
    title = fields.text_or_none("displayName")
    fields.read("op", _is_at_most)
    threshold_ns = fields.read("value", _threshold_ns)
    target_ratio = item.read(lambda _: _target_ratio(fields))
    if threshold_ns is None or target_ratio is None:
        return None
    return _Target(at=item, title=title, threshold_ns=threshold_ns, target_ratio=target_ratio)


def _is_at_most(op: Field) -> None:
    if op.text() != "lte":
        raise op.wrong(f"is {op.text()!r}: a request is good up to the value, write lte")


def _threshold_ns(value: Field) -> int:
    advice = "write seconds, as 2.0 or 0.3"
    seconds = value.number(advice)
    if seconds <= 0:
        raise value.wrong(f"is {value.text()}: write seconds above 0, as 2.0 or 0.3")
    if round(seconds * 1e9) == 0:
        raise value.wrong(f"is {value.text()}, less than a nanosecond: {advice}")
    if seconds > LONGEST_THRESHOLD_S:
        raise value.wrong(f"is {value.text()}, longer than a day: {advice}")
    return round(seconds * 1e9)


def _target_ratio(fields: Fields) -> float:
    for name in ("timeSliceTarget", "timeSliceWindow"):
        if name in fields.found:
            raise fields.found[name].wrong("is for time slices: requests are counted, delete it")
    percent = fields.found.get("targetPercent")
    if percent is not None and "target" in fields.found:
        raise percent.wrong("is there beside target: delete one")
    field = percent or fields.needed("target")
    whole = 100 if percent is not None else 1
    target = field.number(f"write a share, as {0.99 * whole:g}")
    if not 0 < target < whole:
        raise field.wrong(
            f"is {field.text()}: write a share above 0 and below {whole}, as {0.99 * whole:g}"
        )
    if 1 - target / whole < LEAST_BUDGET_RATIO - _ROUNDING:
        highest = f"{whole * (1 - LEAST_BUDGET_RATIO):.6g}"
        raise field.wrong(
            f"is {field.text()}: that allows less than one bad request in a million, which "
            f"nobody can keep; write {highest} at most"
        )
    return target / whole
