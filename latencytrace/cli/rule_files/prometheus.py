"""Objectives as a file of Prometheus rules: what is recorded, and what alerts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from latencytrace.analysis.slo.burn_promql import (
    BUDGET_LEFT,
    absent,
    fires,
    prometheus_rules,
    recorded,
    silent,
)
from latencytrace.analysis.slo.burn_rate import burn_rules
from latencytrace.errors import ObjectivesError
from latencytrace.model import AlertKind, BurnRule, Objective, Severity
from latencytrace.model.objective import length_text, window_text
from latencytrace.model.texts.units import target

Document = dict[str, object]

EVALUATOR = {"evaluator": "prometheus"}  # the service's own alert is another one
ABSENT = "LatencySLOAbsent"
ABSENT_FOR = "10m"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """The settings of Prometheus."""

    scrape_ns: int  # between two scrapes
    interval_ns: int  # between two evaluations
    dashboard_url: str | None


def rules_document(objectives: Sequence[Objective], settings: RuleSettings) -> Document:
    """A rule file; a group for each objective, since rules within a group keep their order."""
    return {"groups": [_group(objective, settings) for objective in objectives]}


def rules_of(objective: Objective, settings: RuleSettings) -> tuple[BurnRule, ...]:
    """The tiers that this Prometheus can watch.

    Raises:
        ObjectivesError: Its scrapes are too far apart for any tier, or for any page.
    """
    rules = prometheus_rules(objective, settings.scrape_ns)
    pages = any(rule.severity is Severity.PAGE for rule in burn_rules(objective))
    if not rules or (pages and not any(rule.severity is Severity.PAGE for rule in rules)):
        raise ObjectivesError(
            f"{objective.name}: every window that would page is shorter than four scrapes, "
            f"{length_text(settings.scrape_ns)} apart: take a longer period, or scrape more often"
        )
    return rules


def firing(name: str, objective: Objective, severity: Severity) -> str:
    """Selects an alert of Prometheus's own that fires."""
    return (
        f'alertname="{name}", alertstate="firing", slo="{objective.name}", severity="{severity}"'
    )


def alert_labels(objective: Objective, severity: Severity) -> dict[str, str]:
    """The labels that identify an alert; the series' own labels are the same."""
    labels = {
        "slo": objective.name,
        "service": objective.service,
        "route": objective.route or "",
        "severity": str(severity),
    }
    return {name: text for name, text in labels.items() if text}


def whose(objective: Objective) -> str:
    """Name the requests an alert is of, as a template: the route of each has its own series."""
    if objective.route is not None:
        return literal(objective.route)
    of = literal(objective.service)
    return f"{{{{ with $labels.route }}}}{{{{ . }}}}{{{{ else }}}}{of}{{{{ end }}}}"


def literal(text: str) -> str:
    """A text as a template that writes it: labels and annotations of alerts are templates."""
    return f"{{{{ {json.dumps(text, ensure_ascii=False)} }}}}" if "{" in text else text


def literals(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels of an alert as templates."""
    return {name: literal(text) for name, text in labels.items()}


def annotations(objective: Objective, settings: RuleSettings) -> dict[str, str]:
    """The text of an alert; the service's own `/api/v1/alerts` says more."""
    of = whose(objective)
    said = {
        "summary": (
            f"{objective.name}: {of} is burning its error budget "
            '{{ $value | printf "%.1f" }}\N{MULTIPLICATION SIGN} too fast'
        ),
        "description": (
            f"Promised: {target(objective.target_ratio)} of {of} {_wanted(objective)} "
            f"over {objective.period_text}. {_budget_text(objective)}. "
            "Slow stage, slow requests and links: GET /api/v1/alerts of the service."
        ),
    }
    if settings.dashboard_url is not None:
        separator = "&" if "?" in settings.dashboard_url else "?"
        url = f"{settings.dashboard_url}{separator}var-slo={objective.name}"
        said["dashboard_url"] = literal(url)
    return said


def _budget_text(objective: Objective) -> str:
    """Return the rest of the budget, as a template."""
    labels = ("slo", "service", "route")
    matchers = ", ".join(f"{name}=%q" for name in labels)
    values = " ".join(f"$labels.{name}" for name in labels)
    left = (
        f"{{{{ with printf `{BUDGET_LEFT}{{{matchers}}}` {values} | query }}}}"
        "{{ . | first | value | humanizePercentage }}{{ else }}unknown{{ end }}"
    )
    if objective.calendar is None:
        return f"Budget left: {left}"
    length = length_text(objective.period_ns)
    return f"Budget left of the last {length}, for it rolls here, not by the calendar: {left}"


def _wanted(objective: Objective) -> str:
    if objective.limit_ns is None:
        return "do not fail"
    return f"have {objective.measured} within {objective.limit_ns / 1e9:g} s"


def _group(objective: Objective, settings: RuleSettings) -> Document:
    rules = rules_of(objective, settings)
    return {
        "name": f"latencytrace-{objective.name}",
        "interval": window_text(settings.interval_ns),
        "rules": [
            *_recording(objective, rules, settings),
            *_alerting(objective, rules, settings),
        ],
    }


def _recording(
    objective: Objective, rules: tuple[BurnRule, ...], settings: RuleSettings
) -> Iterator[Document]:
    found = recorded(objective, rules, settings.scrape_ns, settings.interval_ns)
    for name, labels, expression in found:
        # With its name in them, or promtool finds them twice.
        yield {"record": name, "expr": expression, "labels": {"slo": objective.name, **labels}}


def _alerting(
    objective: Objective, rules: tuple[BurnRule, ...], settings: RuleSettings
) -> Iterator[Document]:
    for severity in Severity:
        tiers = tuple(rule for rule in rules if rule.severity is severity)
        if not tiers:
            continue
        yield {
            "alert": str(AlertKind.BURN),
            "expr": fires(objective, tiers, settings.scrape_ns),
            "labels": literals(alert_labels(objective, severity)) | EVALUATOR,
            "annotations": annotations(objective, settings),
        }
    if objective.pages_on_silence:
        yield _no_data(objective, settings)
    yield {
        "alert": ABSENT,
        "expr": absent(objective),
        "for": ABSENT_FOR,
        "labels": literals(alert_labels(objective, Severity.PAGE)),
        "annotations": {
            "summary": f"{objective.name}: no service that Prometheus scrapes watches it",
            "description": "Is the service up, scraped, and given the file of objectives?",
        },
    }


def _no_data(objective: Objective, settings: RuleSettings) -> Document:
    of = whose(objective)
    return {
        "alert": str(AlertKind.NO_DATA),
        "expr": silent(objective, settings.scrape_ns),
        "labels": literals(alert_labels(objective, Severity.PAGE)) | EVALUATOR,
        "annotations": {
            "summary": f"{objective.name}: {of}, which was steady, has lost its traffic"
        },
    }
