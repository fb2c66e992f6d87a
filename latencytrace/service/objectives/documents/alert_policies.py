"""OpenSLO's alert policies: burn rates as tiers, and notification targets as sinks."""

from collections.abc import Iterator
from typing import Annotated, Final

import yaml
from pydantic import InstanceOf, PlainValidator

from latencytrace.model import Severity
from latencytrace.model.objective import SHORT_WINDOWS_IN_LONG, BurnRule
from latencytrace.service.objectives.documents.indicator import NO_ALERTING, Alerting
from latencytrace.service.objectives.documents.sources import References
from latencytrace.service.objectives.documents.values import Items, Text, length_ns, number, one_of
from latencytrace.service.objectives.documents.yaml_fields import Field, Part

SINKS: Final = ("alertmanager", "log", "slack", "webhook")
_SEVERITIES: Final = {
    **dict.fromkeys(("page", "critical", "sev1", "p1", "high"), Severity.PAGE),
    **dict.fromkeys(("ticket", "warning", "sev2", "sev3", "p2", "p3", "medium", "low"),
                    Severity.TICKET),
}  # fmt: skip
_SHORTEST_NS: Final = 120 * 10**9  # whose twelfth is what counts are kept in
_LEAST_RATIO: Final = 0.5  # as the usual tiers have it


def _severity(field: Field) -> Severity:
    found = _SEVERITIES.get(field.text().lower())
    if found is None:
        raise ValueError(f"is {field.text()!r}: write page or ticket")
    return found


def _factor(field: Field) -> float:
    factor = number(field, "write a burn rate, as 14.4")
    if factor <= 0:
        raise ValueError(f"is {field.text()}: write a burn rate above 0, as 14.4")
    return factor


def _window_ns(field: Field) -> int:
    found = length_ns(field)
    if found < _SHORTEST_NS:
        raise ValueError(f"is {field.text()!r}: write 2m at least")
    return found


class _BurnRate(Part):
    kind: Annotated[str, one_of("burnrate")] = "burnrate"
    op: Annotated[str, one_of("lte", "gte", "lt", "gt")]
    threshold: Annotated[float, PlainValidator(_factor)]
    lookback_window: Annotated[int, PlainValidator(_window_ns)]
    alert_after: object = None


class _Condition(Part):
    description: object = None
    severity: Annotated[Severity, PlainValidator(_severity)]
    condition: _BurnRate


class _Policy(Part):
    description: object = None
    alert_when_no_data: Annotated[str, one_of("true", "false")] | None = None
    alert_when_resolved: object = None
    alert_when_breaching: object = None
    conditions: Annotated[list[InstanceOf[Field]], Items] | None = None
    notification_targets: Annotated[list[InstanceOf[Field]], Items] | None = None


class _Target(Part):
    target: Text
    description: object = None


def alerting_of(policies: Field | None, references: References, notes: list[str]) -> Alerting:
    """Read alert policies; faults are noted where they stand.

    Args:
        policies: A list, or nothing.
    """
    if policies is None or policies.is_empty():
        return NO_ALERTING
    tiers: list[BurnRule] = []
    receivers: list[str] = []
    when_silent: set[str | None] = set()
    for field in _specs(policies, "AlertPolicy", "alertPolicyRef", references):
        policy = _Policy.read(field)
        if policy is None:
            continue
        when_silent.add(policy.alert_when_no_data)
        conditions = policy.found.get("conditions")
        named = conditions and _specs(conditions, "AlertCondition", "conditionRef", references)
        for one in named or ():
            condition = _Condition.read(one)
            if condition is not None:
                tiers.append(_tier(condition, notes))
        targets = policy.found.get("notificationTargets")
        if targets is not None:
            for one in _specs(targets, "AlertNotificationTarget", "targetRef", references):
                receivers += _receivers(one, notes)
    tiers.sort(key=lambda tier: -tier.factor)
    return Alerting(
        tiers=tuple(tiers),
        receivers=tuple(dict.fromkeys(receivers)),
        pages_on_silence="false" not in when_silent or "true" in when_silent,
    )


def _tier(condition: _Condition, notes: list[str]) -> BurnRule:
    burn = condition.condition
    if burn.op in {"lte", "lt"}:
        notes.append(
            f"{burn.at.at}: op {burn.op}: an alert fires above the threshold nevertheless"
        )
    if burn.alert_after is not None:
        notes.append(
            f"{burn.found['alertAfter'].at}: alertAfter is not read: the burn rate must be "
            "exceeded in a twelfth of the lookbackWindow, too"
        )
    return BurnRule(
        factor=burn.threshold,
        long_ns=burn.lookback_window,
        severity=condition.severity,
        least_ratio=_LEAST_RATIO,
        longest_pause_ns=burn.lookback_window // SHORT_WINDOWS_IN_LONG,
    )


def _receivers(field: Field, notes: list[str]) -> Iterator[str]:
    target = _Target.read(field)
    if target is None:
        return
    if target.target.lower() in SINKS:
        yield target.target.lower()
    else:
        notes.append(
            f"{target.at.at}: the target {target.target!r} is no sink ({', '.join(SINKS)}): its "
            "alerts go to all of LATENCYTRACE_SINKS"
        )


def _specs(field: Field, kind: str, reference: str, references: References) -> Iterator[Field]:
    """The `spec` of each entry of a list, which stands there or is referred to."""
    try:
        entries = field.items()
    except ValueError as error:
        field.wrong(str(error))
        return
    for entry in entries:
        if not isinstance(entry.node, yaml.MappingNode):
            entry.wrong(f"must have fields, as `{reference}: NAME`")
            continue
        named = entry.child(reference)
        document = entry if named is None else references.get((kind, named))
        if document is None:
            entry.wrong(f"names no {kind} {named!r}: add that document here or in a file beside")
            continue
        spec = document.part("spec")
        if spec is None:
            document.wrong("has no 'spec': add it")
        else:
            yield spec
