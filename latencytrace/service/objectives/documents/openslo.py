"""Objectives in OpenSLO v1.

Source: the OpenSLO specification, version 1 (github.com/OpenSLO/OpenSLO).
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Final, Self
from zoneinfo import ZoneInfo

import yaml
from pydantic import AfterValidator, InstanceOf, PlainValidator, model_validator

from latencytrace.model import Calendar
from latencytrace.model.objective import DAY_NS, TimeSlices
from latencytrace.service.objectives.documents.alert_policies import alerting_of
from latencytrace.service.objectives.documents.indicator import (
    Found,
    Indicator,
    Period,
    objective_of,
)
from latencytrace.service.objectives.documents.sources import (
    OURS,
    IndicatorSpec,
    Measured,
    References,
    indicator_of,
)
from latencytrace.service.objectives.documents.values import (
    RATE,
    Items,
    Text,
    name,
    number,
    one_of,
    period,
    refused,
    share,
    slice_ns,
    slice_target,
    threshold_ns,
    truth,
)
from latencytrace.service.objectives.documents.yaml_fields import Field, Part

V1: Final = "openslo/v1"
REFERRED: Final = (
    "AlertCondition", "AlertNotificationTarget", "AlertPolicy", "DataSource", "SLI",
)  # fmt: skip
KINDS: Final = ("SLO", *REFERRED, "Service")
_UP_TO: Final = ("lte", "lt")
_FROM: Final = ("gte", "gt")
_SECONDS: Final = "write tokens a second, as 20"

METHODS: Final = ("Occurrences", "Timeslices", "RatioTimeslices")
_SLICE_FIELDS: Final = {
    "Timeslices": ("timeSliceTarget", "timeSliceWindow"),
    "RatioTimeslices": ("timeSliceWindow",),
}
_NO_WEIGHT = refused("is for composites: write a document for each objective", "target")


class Document(Part):
    """A document of any kind."""

    api_version: Annotated[str, one_of(V1)]
    kind: Annotated[str, one_of(*KINDS)]
    metadata: InstanceOf[Field] | None = None
    spec: InstanceOf[Field] | None = None


class Metadata(Part, extra="allow"):
    """The names of a document."""

    name: Annotated[str, PlainValidator(name)]
    display_name: Text | None = None
    labels: object = None
    annotations: object = None


class _Indicator(Part):
    metadata: object = None
    spec: IndicatorSpec


class _Calendar(Part):
    start_time: Text
    time_zone: Text

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        try:
            start = datetime.fromisoformat(self.start_time)
        except ValueError:
            start = None
        if start is None or start.tzinfo is not None:
            raise ValueError("has another startTime than `2026-01-01 00:00:00`")
        try:
            ZoneInfo(self.time_zone)
        except (KeyError, OSError, ValueError):
            raise ValueError(
                f"names no time zone {self.time_zone!r}: write one as Europe/Berlin"
            ) from None
        return self


class _Window(Part):
    duration: Annotated[tuple[int, int], PlainValidator(period)]
    is_rolling: Annotated[bool | None, PlainValidator(truth)] = None
    calendar: _Calendar | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        is_rolling = self.calendar is None if self.is_rolling is None else self.is_rolling
        if is_rolling == (self.calendar is not None):
            raise ValueError(
                "must roll or have a calendar: write `isRolling: true`, or both of it"
            )
        length_ns, months = self.duration
        if self.calendar is not None and not months and length_ns % DAY_NS:
            raise ValueError("has a calendar, and no whole days or months: write 1w or 1M")
        return self

    def read_period(self) -> Period:
        """The period, rolling or with the calendar."""
        length_ns, months = self.duration
        if self.calendar is None:
            return Period(length_ns=length_ns)
        start = datetime.fromisoformat(self.calendar.start_time)
        calendar = Calendar(
            start=start.isoformat(),
            zone=self.calendar.time_zone,
            months=months,
            days=0 if months else length_ns // DAY_NS,
        )
        return Period(length_ns=length_ns, calendar=calendar)


def _one_window(windows: list[_Window]) -> list[_Window]:
    for window in windows[1:]:
        window.at.wrong("is one too many: an objective has one period")
    return windows


def _value(field: Field) -> Field:
    threshold_ns(field)  # what a rate may be is within what seconds may be
    return field


class Target(Part):
    """A target of an indicator, with the value that is compared."""

    display_name: Text | None = None
    op: Annotated[str | None, one_of(*_UP_TO, *_FROM)] = None
    value: Annotated[Field | None, PlainValidator(_value)] = None
    target: Annotated[float, share(1)] | None = None
    target_percent: Annotated[float, share(100)] | None = None
    time_slice_target: Annotated[float | None, PlainValidator(slice_target)] = None
    time_slice_window: Annotated[int | None, PlainValidator(slice_ns)] = None
    indicator: _Indicator | None = None
    indicator_ref: InstanceOf[Field] | None = None
    composite_weight: Annotated[None, _NO_WEIGHT] = None

    @model_validator(mode="after")
    def _has_one_target(self) -> Self:
        if self.target is None and self.target_percent is None:
            raise ValueError("has no 'target': add it")
        if self.target is not None and self.target_percent is not None:
            raise ValueError("has target beside targetPercent: delete one")
        return self

    @property
    def ratio(self) -> float:
        """The share that must be good."""
        return self.target or self.target_percent or 0.0  # one is there

    def slices(self, method: str) -> TimeSlices | None:
        """The slices of time that a method of budgeting judges; what is wrong of them is noted."""
        wanted = _SLICE_FIELDS.get(method, ())
        for key in _SLICE_FIELDS["Timeslices"] if method in METHODS else ():
            is_wanted = key in wanted
            if is_wanted and key not in self.found:
                self.at.wrong(f"has no {key!r}, which {method} needs: add it")
            elif key in self.found and not is_wanted:
                self.found[key].wrong(
                    f"is not for {method}: delete it, or write budgetingMethod: Timeslices"
                )
        if not wanted or self.time_slice_window is None:
            return None
        return TimeSlices(length_ns=self.time_slice_window, target_ratio=self.time_slice_target)

    def threshold_ns(self, indicator: Indicator) -> int | None:
        """Up to how long a request is good; None: that is wrong, which is noted."""
        if indicator.limit_ns is not None:
            return indicator.limit_ns
        if self.value is None or self.op is None:
            self.at.wrong(f"has no {'op' if self.op is None else 'value'!r}: add it")
            return None
        _check_op(self.found["op"], is_rate=indicator.is_rate)
        if indicator.is_rate:
            return round(1e9 / number(self.value, _SECONDS)) - (self.op == "gt")
        return threshold_ns(self.value) - (self.op == "lt")


def _check_op(op: Field, *, is_rate: bool) -> None:
    """Note an operator for which the better values are bad."""
    if (op.text() in _FROM) != is_rate:
        good = (
            "from the value on, write gte or gt" if is_rate else "up to the value, write lte or lt"
        )
        op.wrong(f"is {op.text()!r}: a request is good {good}")


class Spec(Part):
    """An objective, or several of one indicator."""

    service: Text
    description: object = None
    indicator: _Indicator | None = None
    indicator_ref: InstanceOf[Field] | None = None
    time_window: Annotated[list[_Window], Items, AfterValidator(_one_window)]
    budgeting_method: Annotated[str, one_of(*METHODS)]
    objectives: Annotated[list[Target], Items]
    alert_policies: InstanceOf[Field] | None = None


def objectives_of(document: Document, references: References, notes: list[str]) -> Iterator[Found]:
    for one in ("metadata", "spec"):
        if one not in document.found:
            document.at.wrong(f"has no {one!r}: add it")
    metadata = Metadata.read(document.metadata) if document.metadata else None
    spec = Spec.read(document.spec) if document.spec else None
    if spec is None or metadata is None:
        if document.spec is not None:
            _check_rest(document.spec)
        return
    alerting = alerting_of(spec.alert_policies, references, notes)
    several = len(spec.objectives) > 1
    period_found = spec.time_window[0].read_period()
    for place, target in enumerate(spec.objectives, 1):
        indicator = _indicator(target, spec, references)
        threshold = None if indicator is None else target.threshold_ns(indicator)
        if indicator is None or threshold is None:
            continue
        objective = objective_of(
            indicator,
            name=f"{metadata.name}-{place}" if several else metadata.name,
            display_name=target.display_name or metadata.display_name or metadata.name,
            service=spec.service,
            threshold_ns=threshold,
            target_ratio=target.ratio,
            period=period_found,
            alerting=alerting,
            slices=target.slices(spec.budgeting_method),
        )
        yield Found(objective=objective, at=target.at, name_at=metadata.found["name"])


def _check_rest(spec: Field) -> None:
    """Note what else is wrong in a document that is not read for its faults."""
    source = spec.part("indicator", "spec", "thresholdMetric", "metricSource")
    measured = None if source is None else source.part("spec")
    if source is None or measured is None or source.child("type") != OURS:
        return
    Measured.read(measured)
    targets = spec.part("objectives")
    is_list = targets is not None and isinstance(targets.node, yaml.SequenceNode)
    for target in (
        targets.items() if targets is not None and is_list and targets.node.value else ()
    ):
        op = target.part("op")
        if op is not None and target.child("op") in {*_UP_TO, *_FROM}:
            _check_op(op, is_rate=measured.child("measure") == RATE)


def _indicator(target: Target, spec: Spec, references: References) -> Indicator | None:
    for holder in (target, spec):
        if holder.indicator is not None and holder.indicator_ref is not None:
            holder.indicator_ref.wrong("stands beside indicator: delete one")
            return None
        if holder.indicator is not None:
            return indicator_of(holder.indicator.spec, spec.service, references)
        if holder.indicator_ref is not None:
            return _referred(holder.indicator_ref, spec.service, references)
    spec.at.wrong("has no 'indicator': add it")
    return None


def _referred(at: Field, service: str, references: References) -> Indicator | None:
    try:
        named = at.text()
    except ValueError as error:
        at.wrong(str(error))
        return None
    document = references.get(("SLI", named))
    if document is None:
        at.wrong(f"names no SLI {named!r}: add a document of `kind: SLI` here or in a file beside")
        return None
    field = document.part("spec")
    found = None if field is None else IndicatorSpec.read(field)
    return None if found is None else indicator_of(found, service, references)
