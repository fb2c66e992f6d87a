"""Tests of the Prometheus rules, for `promtool test rules`: outages, blips, starts, silence."""

import json
from collections.abc import Iterator, Sequence

from latencytrace.analysis.slo.burn_promql import BUDGET_LEFT, BURN_RATE
from latencytrace.analysis.slo.burn_rate import calming_ns, detection_ns, keep_firing_ns
from latencytrace.cli.rule_files.prometheus import (
    ABSENT,
    Document,
    RuleSettings,
    firing,
    rules_of,
)
from latencytrace.model import AlertKind, BurnRule, Objective, Severity
from latencytrace.model.objective import MINUTE_NS, window_text

_PER_INTERVAL = 60  # requests
_SLACK = 1.1  # detection must be within a tenth, and an evaluation or two, of the formula


def tests_document(
    objectives: Sequence[Objective], settings: RuleSettings, rule_file: str
) -> Document:
    """A file of tests for the rules of these objectives in another file."""
    return {
        "rule_files": [rule_file],
        "evaluation_interval": window_text(settings.interval_ns),
        "tests": [test for objective in objectives for test in _tests(objective, settings)],
    }


def _tests(objective: Objective, settings: RuleSettings) -> Iterator[Document]:
    rules = rules_of(objective, settings)
    pages = tuple(rule for rule in rules if rule.severity is Severity.PAGE)
    calm_ns = _whole(2 * max(rule.long_ns for rule in pages[:1]) + 15 * MINUTE_NS, settings)
    yield _outage(objective, settings, pages, calm_ns)
    yield _blip(objective, settings, pages, calm_ns)
    yield _start(objective, settings, pages)
    yield _absence(objective, settings)


def _outage(
    objective: Objective, settings: RuleSettings, pages: tuple[BurnRule, ...], calm_ns: int
) -> Document:
    """Every request is bad: the fastest tier pages when the formula says, and it ends."""
    fastest = pages[0]
    step_ns = settings.interval_ns
    theory_ns = detection_ns(objective, fastest, 1.0) or 0
    outage_ns = _whole(2 * theory_ns + fastest.short_ns, settings)
    ends_ns = max(calming_ns(objective, rule, 1.0) for rule in pages)
    ends_ns += keep_firing_ns(objective, Severity.PAGE)
    page = _firing(AlertKind.BURN, objective)
    over_ns = calm_ns + outage_ns
    return {
        "name": f"{objective.name}: an outage pages, and the page ends",
        "interval": window_text(step_ns),
        "input_series": _counters(
            objective, settings, [(calm_ns, 0), (outage_ns, 1), (2 * ends_ns, 0)]
        ),
        "promql_expr_test": [
            _nothing(page, calm_ns + _whole(int(theory_ns / _SLACK) - 2 * step_ns, settings)),
            _one(page, calm_ns + _whole(int(theory_ns * _SLACK) + 3 * step_ns, settings)),
            _nothing(page, over_ns + _whole(int(ends_ns * _SLACK) + 3 * step_ns, settings)),
            _one(f'{BUDGET_LEFT}{{slo="{objective.name}"}} < 1', over_ns),
        ],
    }


def _blip(
    objective: Objective, settings: RuleSettings, pages: tuple[BurnRule, ...], calm_ns: int
) -> Document:
    """An outage of half the time that it takes to page."""
    blip_ns = _whole((detection_ns(objective, pages[0], 1.0) or 0) // 2, settings)
    page = _firing(AlertKind.BURN, objective)
    moments = [calm_ns + blip_ns * share for share in (1, 2, 4)]
    return {
        "name": f"{objective.name}: a blip is silent",
        "interval": window_text(settings.interval_ns),
        "input_series": _counters(
            objective, settings, [(calm_ns, 0), (blip_ns, 1), (4 * blip_ns, 0)]
        ),
        "promql_expr_test": [_nothing(page, at_ns) for at_ns in moments],
    }


def _start(objective: Objective, settings: RuleSettings, pages: tuple[BurnRule, ...]) -> Document:
    """Slow requests right after a start, enough for the slowest page had they lasted."""
    slowest = max(pages, key=lambda rule: rule.long_ns)
    bad_ratio = min(1.0, 1.3 * slowest.factor * objective.budget_ratio)
    start_ns = _whole(slowest.long_ns // 12, settings)
    page = _firing(AlertKind.BURN, objective)
    return {
        "name": f"{objective.name}: a start does not page",
        "interval": window_text(settings.interval_ns),
        "input_series": _counters(objective, settings, [(start_ns, bad_ratio)]),
        "promql_expr_test": [
            _nothing(page, _whole(start_ns * tenths // 10, settings)) for tenths in (3, 6, 9)
        ],
    }


def _absence(objective: Objective, settings: RuleSettings) -> Document:
    absent = _firing(ABSENT, objective)
    return {
        "name": f"{objective.name}: nobody watches it",
        "interval": window_text(settings.interval_ns),
        "input_series": [],
        "promql_expr_test": [
            _nothing(absent, 9 * MINUTE_NS),
            _one(absent, 12 * MINUTE_NS),
            _nothing(f'{BURN_RATE}{{slo="{objective.name}"}}', 12 * MINUTE_NS),
        ],
    }


def _counters(
    objective: Objective, settings: RuleSettings, parts: Sequence[tuple[int, float]]
) -> list[Document]:
    """The two counters: so long with such a share of bad requests, one part after the other."""
    labels = (
        f'slo="{objective.name}", service={_quoted(objective.service)}, '
        f"route={_quoted(objective.route or '')}, "
        'job="latencytrace", instance="latencytrace:8321"'
    )
    steps = [round(length_ns / settings.interval_ns) for length_ns, _ in parts]
    total = f"0+{_PER_INTERVAL}x{sum(steps)}"
    bad, count = [], 0
    for (_, ratio), length in zip(parts, steps, strict=True):
        each = round(_PER_INTERVAL * ratio)
        bad.append(f"{count}+{each}x{max(0, length - 1)}")
        count += each * length
    return [
        {"series": f"latencytrace_slo_requests_total{{{labels}}}", "values": total},
        {"series": f"latencytrace_slo_bad_requests_total{{{labels}}}", "values": " ".join(bad)},
    ]


def _quoted(text: str) -> str:
    """Write a label's value; Prometheus knows the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)


def _firing(name: str, objective: Objective) -> str:
    return f"ALERTS{{{firing(name, objective, Severity.PAGE)}}}"


def _one(expression: str, at_ns: int) -> Document:
    samples = [{"labels": "{}", "value": 1}]
    return {
        "expr": f"count({expression})",
        "eval_time": window_text(at_ns),
        "exp_samples": samples,
    }


def _nothing(expression: str, at_ns: int) -> Document:
    return {"expr": f"count({expression})", "eval_time": window_text(max(at_ns, 0))}


def _whole(length_ns: int, settings: RuleSettings) -> int:
    """In whole evaluations."""
    return round(length_ns / settings.interval_ns) * settings.interval_ns
