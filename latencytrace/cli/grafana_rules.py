"""Objectives as alert rules that Grafana itself evaluates, in its provisioning format."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

from latencytrace.analysis.burn_promql import absent, silent
from latencytrace.analysis.burn_rate import keep_firing_ns
from latencytrace.cli.prometheus_rules import (
    ABSENT,
    ABSENT_FOR,
    Document,
    RuleSettings,
    alert_labels,
    begins,
    firing,
    rules_of,
)
from latencytrace.model import AlertKind, Objective, Severity
from latencytrace.model.objective import window_text

_RANGE_S = 600  # Grafana wants one; instant queries look at its end


def grafana_document(
    objectives: Sequence[Objective], settings: RuleSettings, datasource_uid: str
) -> Document:
    """A provisioning file; it builds on the series that the Prometheus rules record."""
    groups = [
        {
            "orgId": 1,
            "name": f"latencytrace-{objective.name}",
            "folder": "latencytrace",
            "interval": window_text(settings.interval_ns),
            "rules": list(_rules(objective, settings, datasource_uid)),
        }
        for objective in objectives
    ]
    return {"apiVersion": 1, "groups": groups}


def _rules(objective: Objective, settings: RuleSettings, uid: str) -> Iterator[Document]:
    rules = rules_of(objective, settings)
    for severity in Severity:
        if any(rule.severity is severity for rule in rules):
            yield _rule(
                objective,
                uid,
                AlertKind.BURN,
                severity,
                begins(objective, rules, severity),
                keepFiringFor=window_text(keep_firing_ns(objective, severity)),
            )
    page = Severity.PAGE
    quiet = silent(objective, firing(AlertKind.NO_DATA, objective, page))
    yield _rule(objective, uid, AlertKind.NO_DATA, page, quiet)
    yield _rule(objective, uid, ABSENT, page, absent(objective), **{"for": ABSENT_FOR})


def _rule(
    objective: Objective,
    uid: str,
    name: str,
    severity: Severity,
    expression: str,
    **more: str,
) -> Document:
    identity = sha256(f"{name}\0{objective.name}\0{severity}".encode()).hexdigest()
    of = objective.route or objective.service
    return {
        "uid": f"latencytrace-{identity[:24]}",
        "title": f"{name} {objective.name} {severity}",
        "condition": "fires",
        "data": [
            {
                "refId": "rate",
                "relativeTimeRange": {"from": _RANGE_S, "to": 0},
                "datasourceUid": uid,
                # A burn rate can be anything; that the series is there is the alert.
                "model": {
                    "refId": "rate",
                    "expr": f"count by (slo, service, route) (\n{expression}\n)",
                    "instant": True,
                    "range": False,
                },
            },
            {
                "refId": "fires",
                "relativeTimeRange": {"from": _RANGE_S, "to": 0},
                "datasourceUid": "__expr__",
                "model": {
                    "refId": "fires",
                    "type": "threshold",
                    "expression": "rate",
                    "conditions": [{"evaluator": {"type": "gt", "params": [0]}}],
                },
            },
        ],
        "for": "0s",
        "noDataState": "OK",  # no series: it does not fire; silence has a rule of its own
        "execErrState": "Error",
        "labels": {**alert_labels(objective, severity), "alertname": str(name)},
        "annotations": {
            "summary": f"{objective.name}: {of}: {name}; see /api/v1/alerts of the service"
        },
        **more,
    }
