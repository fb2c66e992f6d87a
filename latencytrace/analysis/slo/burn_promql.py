"""The burn rules in Prometheus's language: an objective in, expressions out.

They say what `analysis.slo.burn_rate` says of the same counters, so that either may page:
coverage at a cold start, a handful of bad requests, hysteresis, and silence that is no
recovery. Each builds on series recorded earlier in the same group, which is evaluated in order.
"""

from collections.abc import Iterator

from latencytrace.analysis.slo.burn_rate import CALM_SHARE, LEAST_BAD, burn_rules
from latencytrace.model import BurnRule, Objective
from latencytrace.model.objective import HOUR_NS, window_text

BURN_RATE = "latencytrace:slo_burn_rate"
BAD = "latencytrace:slo_bad_requests"
REQUESTS = "latencytrace:slo_requests"
ACTIVE = "latencytrace:slo_active"
COVERAGE = "latencytrace:slo_coverage_ratio"
USUAL_RATE = "latencytrace:slo_usual_requests_per_second"
BUDGET_LEFT = "latencytrace:slo_budget_left_ratio"

_TOTAL_COUNTER = "latencytrace_slo_requests_total"
_BAD_COUNTER = "latencytrace_slo_bad_requests_total"
_LABELS = "slo, service, route"
_LEAST_SCRAPES = 4  # in a window: with fewer, its rates are chance
_SILENCE = "10m"
_STEADY_REQUESTS = 120  # in the hour before: 20 would have come in ten minutes
_STEADY_PARTS = 10  # of its twelve


def prometheus_rules(objective: Objective, scrape_ns: int) -> tuple[BurnRule, ...]:
    """The tiers whose short window holds enough scrapes."""
    rules = burn_rules(objective)
    return tuple(rule for rule in rules if rule.short_ns >= _LEAST_SCRAPES * scrape_ns)


def recorded(
    objective: Objective, rules: tuple[BurnRule, ...], scrape_ns: int, interval_ns: int
) -> Iterator[tuple[str, str, str]]:
    """Yield what is recorded, in order: name, window, expression.

    Args:
        objective: Whose it is.
        rules: Its tiers.
        scrape_ns: Between two scrapes.
        interval_ns: Between two evaluations.
    """
    windows_ns = sorted({length for rule in rules for length in (rule.short_ns, rule.long_ns)})
    for window_ns in windows_ns:
        window = window_text(window_ns)
        yield REQUESTS, window, _counted(_TOTAL_COUNTER, objective, window_ns, scrape_ns)
        yield BAD, window, _counted(_BAD_COUNTER, objective, window_ns, scrape_ns)
        requests, bad = (_series(name, objective, window) for name in (REQUESTS, BAD))
        rate = f"{bad} / ({requests} > 0) / {objective.budget_ratio:.6g}"
        yield BURN_RATE, window, rate
    for rule in rules:
        short, long = window_text(rule.short_ns), window_text(rule.long_ns)
        yield ACTIVE, long, f"{_series(REQUESTS, objective, short)} > bool 0"
        yield COVERAGE, long, _covered(objective, rule.long_ns, interval_ns)
    period = window_text(objective.period_ns)
    yield USUAL_RATE, period, _usual_rate(objective, rules)
    yield BUDGET_LEFT, period, _budget_left(objective, rules, interval_ns)


def fires(objective: Objective, rules: tuple[BurnRule, ...]) -> str:
    """Return what makes an alert of these tiers begin."""
    return "\nor\n".join(_fires(objective, rule) for rule in rules)


def holds(objective: Objective, rules: tuple[BurnRule, ...], alert: str) -> str:
    """Return what keeps an alert that fires from ending: not calm yet, or silence.

    Args:
        objective: Whose it is.
        rules: Its tiers.
        alert: Selects the alert that fires.
    """
    firing = f"max by ({_LABELS}) (ALERTS{{{alert}}})"
    warm = [f"(\n{_exceeds(objective, rule, '>=', CALM_SHARE * rule.factor)}\n)" for rule in rules]
    short = window_text(rules[0].short_ns)
    silent = f"({_series(REQUESTS, objective, short)} == 0)"
    before = f"count_over_time({_series(BURN_RATE, objective, short)}[1d])"
    joined = "\nor\n".join([*warm, f"(\n{silent}\nand on ({_LABELS}) {before}\n)"])
    return f"(\n{joined}\n)\nand on ({_LABELS}) {firing}"


def silent(objective: Objective, alert: str) -> str:
    """Requests came steadily for an hour, and none for ten minutes; true until they come again."""
    none_now = f"({_increase(_TOTAL_COUNTER, objective, _SILENCE)} == 0)"
    hour = window_text(HOUR_NS)
    before = _increase(_TOTAL_COUNTER, objective, hour, _SILENCE)
    part = _increase(_TOTAL_COUNTER, objective, "5m")
    parts = f"count_over_time(({part} > 0)[{hour}:5m] offset {_SILENCE})"
    return (
        f"{none_now}\nand on ({_LABELS}) (\n"
        f"(\n{before} >= {_STEADY_REQUESTS}\nand on ({_LABELS}) {parts} >= {_STEADY_PARTS}\n)\n"
        f"or max by ({_LABELS}) (ALERTS{{{alert}}})\n)"
    )


def alarm(
    objective: Objective, rules: tuple[BurnRule, ...], expression: str, unless: str | None = None
) -> str:
    """1 while something is so, 0 while it is not: there as long as requests are counted.

    Args:
        objective: Whose it is.
        rules: Its tiers.
        expression: What is so.
        unless: What must not be so.
    """
    except_for = "" if unless is None else f"\nunless on ({_LABELS}) (\n{unless}\n)"
    counted = _series(REQUESTS, objective, window_text(rules[0].short_ns))
    return (
        f"count by ({_LABELS}) (\n(\n{expression}\n){except_for}\n)\n"
        f"or\n0 * max by ({_LABELS}) ({counted})"
    )


def absent(objective: Objective) -> str:
    """No series at all: nobody watches this objective."""
    return f"absent({_TOTAL_COUNTER}{{{_named(objective)}}})"


def _fires(objective: Objective, rule: BurnRule) -> str:
    bad = _series(BAD, objective, window_text(rule.long_ns))
    usual = _series(USUAL_RATE, objective, window_text(objective.period_ns))
    least = rule.least_ratio * rule.factor * objective.budget_ratio * rule.long_ns / 1e9
    return (
        f"(\n{_exceeds(objective, rule, '>', rule.factor)}\n"
        f"and on ({_LABELS}) {bad} >= {LEAST_BAD[rule.severity]}\n"
        f"and on ({_LABELS}) {bad} >= on ({_LABELS}) {usual} * {least:.6g}\n)"
    )


def _exceeds(objective: Objective, rule: BurnRule, comparison: str, factor: float) -> str:
    long, short = window_text(rule.long_ns), window_text(rule.short_ns)
    rate = _series(BURN_RATE, objective, long)
    coverage = _series(COVERAGE, objective, long)
    return (
        f"{rate} * on ({_LABELS}) {coverage} {comparison} {factor:.6g}\n"
        f"and on ({_LABELS}) {_series(BURN_RATE, objective, short)} {comparison} {factor:.6g}"
    )


def _covered(objective: Objective, long_ns: int, interval_ns: int) -> str:
    long = window_text(long_ns)
    active = f"sum_over_time({_series(ACTIVE, objective, long)}[{long}])"
    return f"clamp_max({active} * {interval_ns / long_ns:.6g}, 1)"


def _usual_rate(objective: Objective, rules: tuple[BurnRule, ...]) -> str:
    """Requests a second in the mean of the period, where there were any."""
    period = window_text(objective.period_ns)
    requests = _series(REQUESTS, objective, window_text(rules[-1].short_ns))
    active = _series(ACTIVE, objective, window_text(rules[-1].long_ns))
    return (
        f"sum_over_time({requests}[{period}]) / on ({_LABELS}) "
        f"(sum_over_time({active}[{period}]) > 0) / {rules[-1].short_ns / 1e9:.6g}"
    )


def _budget_left(objective: Objective, rules: tuple[BurnRule, ...], interval_ns: int) -> str:
    """Of the whole period, from what was recorded: counters would have to be kept as long."""
    period = window_text(objective.period_ns)
    short = window_text(min(rule.short_ns for rule in rules))
    bad, requests = (
        f"sum_over_time({_series(name, objective, short)}[{period}])" for name in (BAD, REQUESTS)
    )
    active = _series(ACTIVE, objective, window_text(rules[-1].long_ns))
    covered = f"sum_over_time({active}[{period}]) * {interval_ns / objective.period_ns:.6g}"
    spent = f"{bad} / ({requests} > 0) / {objective.budget_ratio:.6g}"
    return f"1 - {spent} * on ({_LABELS}) clamp_max({covered}, 1)"


def _counted(counter: str, objective: Objective, window_ns: int, scrape_ns: int) -> str:
    """The requests of a window.

    What came between the scrape before a window and the first in it, `increase` leaves out, and
    makes up for it from the rest: of a window of five scrapes a fifth is a guess, and at a
    handful of requests that is a page too many or too late. So it is asked of one scrape more.
    """
    wider_ns = window_ns + scrape_ns
    return f"{_increase(counter, objective, window_text(wider_ns))} * {window_ns / wider_ns:.6g}"


def _increase(counter: str, objective: Objective, window: str, offset: str | None = None) -> str:
    ago = f" offset {offset}" if offset else ""
    return f"sum by ({_LABELS}) (increase({counter}{{{_named(objective)}}}[{window}]{ago}))"


def _series(name: str, objective: Objective, window: str) -> str:
    return f'{name}{{{_named(objective)}, window="{window}"}}'


def _named(objective: Objective) -> str:
    return f'slo="{objective.name}"'
