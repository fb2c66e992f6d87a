"""Objectives as alert rules that Grafana itself evaluates, in its provisioning format.

Where Grafana differs from Prometheus: the title is the label `alertname`, whatever the labels
say; an interval is whole tens of seconds, or Grafana does not start; `$` begins a variable in
a text, but not in a query; and there are no `ALERTS` to ask what fires.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256

from latencytrace.analysis.slo.burn_promql import absent, alarm, state
from latencytrace.cli.rule_files.prometheus import (
    ABSENT,
    ABSENT_FOR,
    Document,
    RuleSettings,
    alert_labels,
    literals,
    rules_of,
    whose,
)
from latencytrace.model import AlertKind, Objective, Severity
from latencytrace.model.objective import window_text

_RANGE_S = 600  # Grafana wants one; instant queries look at its end
_STEP_NS = 10 * 10**9  # of its scheduler


def grafana_document(
    objectives: Sequence[Objective], settings: RuleSettings, datasource_uid: str
) -> Document:
    """A provisioning file; it builds on the series that the Prometheus rules record."""
    interval_ns = -(-settings.interval_ns // _STEP_NS) * _STEP_NS
    groups = [
        {
            "orgId": 1,
            "name": f"latencytrace-{objective.name}",
            "folder": "latencytrace",
            "interval": window_text(interval_ns),
            "rules": list(_rules(objective, settings, datasource_uid)),
        }
        for objective in objectives
    ]
    return {"apiVersion": 1, "groups": groups}


def _rules(objective: Objective, settings: RuleSettings, uid: str) -> Iterator[Document]:
    rules = rules_of(objective, settings)
    watched = [(AlertKind.BURN, one) for one in Severity if any(r.severity is one for r in rules)]
    if objective.pages_on_silence:
        watched.append((AlertKind.NO_DATA, Severity.PAGE))
    for kind, severity in watched:
        firing = alarm(objective, rules, state(objective, kind, severity))
        yield _rule(objective, uid, kind, severity, firing)
    gone = f"count(\n{absent(objective)}\n)"
    yield _rule(objective, uid, ABSENT, Severity.PAGE, gone, **{"for": ABSENT_FOR})


def _rule(
    objective: Objective,
    uid: str,
    name: str,
    severity: Severity,
    expression: str,
    **more: str,
) -> Document:
    identity = sha256(f"{name}\0{objective.name}\0{severity}".encode()).hexdigest()
    return {
        "uid": f"latencytrace-{identity[:24]}",
        "title": f"{name} {objective.name} {severity}",  # unique in its folder
        "condition": "fires",
        "data": [
            {
                "refId": "rate",
                "relativeTimeRange": {"from": _RANGE_S, "to": 0},
                "datasourceUid": uid,
                "model": {
                    "refId": "rate",
                    "expr": expression,
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
        "noDataState": "OK",  # silence and absence have rules of their own
        "execErrState": "Error",
        "labels": {
            label: _unexpanded(text)
            for label, text in literals(
                {**alert_labels(objective, severity), "alert": str(name)}
            ).items()
        },
        "annotations": {
            "summary": _unexpanded(
                f"{objective.name}: {whose(objective)}: {name}; see /api/v1/alerts of the service"
            )
        },
        **more,
    }


def _unexpanded(text: str) -> str:
    """A text in which Grafana finds no variables of its environment."""
    return text.replace("$", "$$")
