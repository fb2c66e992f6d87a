"""Reads objectives from an OpenSLO v1 file, and says by line what is wrong in it.

Source: the OpenSLO specification, version 1 (github.com/OpenSLO/OpenSLO).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from latencytrace.analysis.burn_rate import burn_rules, can_fire, scaled_rules
from latencytrace.errors import ObjectivesError
from latencytrace.model import Measure, Objective, Severity, Stage
from latencytrace.model.objective import DAY_NS, HOUR_NS, MINUTE_NS, length_text
from latencytrace.service.yaml_fields import Field, Fields, documents

MAX_OBJECTIVES = 100
SHORTEST_PERIOD_NS, LONGEST_PERIOD_NS = DAY_NS, 92 * DAY_NS
LONGEST_THRESHOLD_S = 86_400
SOURCE_TYPE = "latencytrace"

_UNITS_NS = {"m": MINUTE_NS, "h": HOUR_NS, "d": DAY_NS, "w": 7 * DAY_NS}
_PERIOD = re.compile(r"(\d{1,5})([mhdw])")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_OTHER_KINDS = (
    "AlertCondition", "AlertNotificationTarget", "AlertPolicy", "DataSource", "SLI", "Service",
)  # fmt: skip
_SPEC = (
    "service", "description", "indicator", "indicatorRef", "timeWindow", "budgetingMethod",
    "objectives", "alertPolicies",
)  # fmt: skip
_OBJECTIVE = (
    "displayName", "op", "value", "target", "targetPercent", "timeSliceTarget",
    "timeSliceWindow",
)  # fmt: skip
_MEASURES = tuple(measure.value for measure in Measure if measure is not Measure.STAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivesFile:
    """What a file promises, and what a reader should know of how it was understood."""

    objectives: tuple[Objective, ...]
    notes: tuple[str, ...]


def read_objectives(path: Path) -> ObjectivesFile:
    """Read a file.

    Raises:
        ObjectivesError: It cannot be read, or something in it is wrong.
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ObjectivesError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ObjectivesError(f"{path} is no text in UTF-8") from None
    return parse_objectives(text, str(path))


def parse_objectives(text: str, file: str) -> ObjectivesFile:
    """Read the text of a file; of each wrong document the first fault is named.

    Raises:
        ObjectivesError: Something is wrong; the message has a line for each fault.
    """
    objectives: list[Objective] = []
    notes: list[str] = []
    faults: list[str] = []
    for document in documents(text, file):
        try:
            _add_document(document, objectives, notes)
        except ObjectivesError as error:
            faults.append(str(error))
    if faults:
        raise ObjectivesError("\n".join(faults))
    if not objectives:
        raise ObjectivesError(f"{file} has no document of `kind: SLO`: it promises nothing")
    if len(objectives) > MAX_OBJECTIVES:
        raise ObjectivesError(
            f"{file} has {len(objectives)} objectives, more than {MAX_OBJECTIVES}: promise what "
            "a user would notice, a route at a time"
        )
    return ObjectivesFile(objectives=tuple(objectives), notes=tuple(notes))


def _add_document(document: Field, objectives: list[Objective], notes: list[str]) -> None:
    fields = document.fields(("apiVersion", "kind", "metadata", "spec"))
    fields.needed("apiVersion").one_of(("openslo/v1",))
    kind = fields.needed("kind").one_of(("SLO", *_OTHER_KINDS))
    if kind != "SLO":
        notes.append(f"{document.at}: a {kind} is not read")
        return
    metadata = fields.needed("metadata").fields(
        ("name", "displayName", "labels", "annotations"), others=True
    )
    name = metadata.needed("name")
    if not _NAME.fullmatch(name.text()):
        raise name.wrong(f"is {name.text()!r}: write letters, digits, `-`, `_` and `.`, up to 63")
    spec = fields.needed("spec").fields(_SPEC)
    if "alertPolicies" in spec.found:
        policies = spec.found["alertPolicies"]
        notes.append(f"{policies.at}: alertPolicies are not read, the tiers are fixed")
    title = metadata.text_or_none("displayName")
    for objective, at in _objectives(spec, name.text(), title):
        if any(other.name == objective.name for other in objectives):
            raise name.wrong(f"is {objective.name!r} a second time: every name is there once")
        notes += _refused_tiers(objective, at)
        objectives.append(objective)


def _objectives(spec: Fields, name: str, title: str | None) -> Iterator[tuple[Objective, Field]]:
    service = spec.needed("service").text()
    method = spec.needed("budgetingMethod")
    if method.text() != "Occurrences":
        raise method.wrong(f"is {method.text()!r}: requests are counted, write Occurrences")
    period_ns = _period_ns(spec.needed("timeWindow"))
    measured = _indicator(spec)
    measure, stage = _measure(measured.needed("measure"))
    items = spec.needed("objectives").items()
    for place, item in enumerate(items, 1):
        fields = item.fields(_OBJECTIVE)
        yield (
            Objective(
                name=name if len(items) == 1 else f"{name}-{place}",
                display_name=fields.text_or_none("displayName") or title or name,
                service=service,
                route=measured.text_or_none("route"),
                model=measured.text_or_none("model"),
                version=measured.text_or_none("version"),
                measure=measure,
                stage=stage,
                threshold_ns=_threshold_ns(fields),
                target_ratio=_target_ratio(fields),
                period_ns=period_ns,
            ),
            item,
        )


def _indicator(spec: Fields) -> Fields:
    """What is measured of which requests."""
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
    source.needed("type").one_of((SOURCE_TYPE,))
    return source.needed("spec").fields(("measure", "route", "model", "version"))


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


def _threshold_ns(fields: Fields) -> int:
    op = fields.needed("op")
    if op.text() != "lte":
        raise op.wrong(f"is {op.text()!r}: a request is good up to the value, write lte")
    value = fields.needed("value")
    seconds = value.number("write seconds, as 2.0 or 0.3")
    if not 0 < seconds <= LONGEST_THRESHOLD_S or round(seconds * 1e9) == 0:
        raise value.wrong(f"is {seconds:g}: write seconds above 0 and up to a day")
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
    target = field.number("write a share, as 0.99")
    if not 0 < target < whole:
        raise field.wrong(
            f"is {target:g}: write a share above 0 and below {whole}, as {0.99 * whole:g}"
        )
    if 1 - target / whole < 1e-6:  # noqa: PLR2004 - one in a million
        raise field.wrong(f"is {target:g}: less than one bad request in a million cannot be kept")
    return target / whole


def _refused_tiers(objective: Objective, at: Field) -> Sequence[str]:
    """A note for each tier that can never fire.

    Raises:
        ObjectivesError: No page could ever fire.
    """
    budget = objective.budget_ratio
    refused = [
        f"{rule.factor:g} times over {length_text(rule.long_ns)} ({rule.severity}) can never "
        f"fire: {rule.factor:g} * {budget:.4g} of budget = {rule.factor * budget:.3g}, and no "
        "more than 1 can be bad"
        for rule in scaled_rules(objective.period_ns)
        if not can_fire(objective, rule)
    ]
    if not any(rule.severity is Severity.PAGE for rule in burn_rules(objective)):
        highest = min(
            rule.factor
            for rule in scaled_rules(objective.period_ns)
            if rule.severity is Severity.PAGE
        )
        raise at.wrong(
            f"promises {objective.target_ratio:.4g}, so that no page could ever fire: "
            f"{'; '.join(refused)}. Promise more than "
            f"{1 - 1 / highest:.4g}, of a longer value if need be"
        )
    return [f"{at.at}: {objective.name!r}: the tier {tier}: left out" for tier in refused]
