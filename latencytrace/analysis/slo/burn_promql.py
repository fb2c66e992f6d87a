"""The burn rules in Prometheus's language: an objective in, expressions out.

They say what `analysis.slo.burn_rate` says of the same counters, so that either may page:
coverage at a cold start, a handful of bad requests, hysteresis, and silence that is no
recovery. Each builds on series recorded earlier in the same group, which is evaluated in order.

The state of an alert is recorded, too (`FIRING`): it is held until its tiers are known to be
calm, whatever scrapes fail meanwhile. Every expression of an alert has the same labels from
its first moment to its last, or it would be another alert.
"""

from collections.abc import Iterator, Mapping, Sequence

from latencytrace.analysis.slo import traffic
from latencytrace.analysis.slo.burn_rate import (
    CALM_SHARE,
    FAINT_RATIO,
    LEAST_BAD,
    LEAST_BAD_FAINT,
    OUTAGE_BAD,
    burn_rules,
    keep_firing_ns,
)
from latencytrace.model import AlertKind, BurnRule, Objective, Severity
from latencytrace.model.objective import DAY_NS, HOUR_NS, MINUTE_NS, window_text

BURN_RATE = "latencytrace:slo_burn_rate"
BAD = "latencytrace:slo_bad_requests"
CAME_BAD = "latencytrace:slo_came_bad_requests"
REQUESTS = "latencytrace:slo_requests"
ACTIVE = "latencytrace:slo_active"
COVERAGE = "latencytrace:slo_coverage_ratio"
USUAL_RATE = "latencytrace:slo_usual_requests_per_second"
BUDGET_LEFT = "latencytrace:slo_budget_left_ratio"
NOT_CALM = "latencytrace:slo_not_calm"
BURNING = "latencytrace:slo_burning"
TRAFFIC = "latencytrace:slo_traffic"
EXPECTED = "latencytrace:slo_expected_requests"
LOOK = "latencytrace:slo_look_requests"
STEADY = "latencytrace:slo_steady_requests"
FIRING = "latencytrace:slo_alert_firing"

Recorded = tuple[str, Mapping[str, str], str]  # name, labels, expression

WATCHED = "latencytrace_slo_watched"
_TOTAL_COUNTER = "latencytrace_slo_requests_total"
_BAD_COUNTER = "latencytrace_slo_bad_requests_total"
# Where senders sample, they, not those that they stand for, say what may be chance.
_CAME_COUNTER = "latencytrace_slo_came_requests_total"
_CAME_BAD_COUNTER = "latencytrace_slo_came_bad_requests_total"
_LABELS = "slo, service, route"
_LEAST_SCRAPES = 4  # in a window: with fewer, its rates are chance
_HELD = "1d"  # through silence
_NEARLY = 0.99  # of the evaluations of that
_REPORTED_NS = 3 * MINUTE_NS  # in which a service reported to Alertmanager; it forgets after four


def prometheus_rules(objective: Objective, scrape_ns: int) -> tuple[BurnRule, ...]:
    """The tiers whose short window holds enough scrapes."""
    rules = burn_rules(objective)
    return tuple(rule for rule in rules if rule.short_ns >= _LEAST_SCRAPES * scrape_ns)


def recorded(
    objective: Objective, rules: tuple[BurnRule, ...], scrape_ns: int, interval_ns: int
) -> Iterator[Recorded]:
    """Yield what is recorded, in order.

    Args:
        scrape_ns: Between two scrapes.
        interval_ns: Between two evaluations.
    """
    windows_ns = {length for rule in rules for length in (rule.short_ns, rule.long_ns)}
    for window_ns in sorted(windows_ns):
        window = {"window": window_text(window_ns)}
        yield REQUESTS, window, _counted(_TOTAL_COUNTER, objective, window_ns, scrape_ns)
        yield BAD, window, _counted(_BAD_COUNTER, objective, window_ns, scrape_ns)
    for long_ns in sorted({rule.long_ns for rule in rules}):
        window = {"window": window_text(long_ns)}
        yield CAME_BAD, window, _counted(_CAME_BAD_COUNTER, objective, long_ns, scrape_ns)
    # Of all windows at once: a rule costs more than the series that it records.
    requests, bad = (f"{name}{{{_named(objective)}}}" for name in (REQUESTS, BAD))
    yield BURN_RATE, {}, f"{bad} / ({requests} > 0) / {objective.budget_ratio:.6g}"
    yield from _active(objective, rules)
    for rule in rules:
        window = {"window": window_text(rule.long_ns)}
        yield COVERAGE, window, _covered(objective, rule, interval_ns)
    period = {"window": window_text(objective.period_ns)}
    yield USUAL_RATE, period, _usual_rate(objective, rules)
    yield BUDGET_LEFT, period, _budget_left(objective, rules, interval_ns)
    for severity in Severity:
        yield from _states(objective, [rule for rule in rules if rule.severity is severity])
    if objective.pages_on_silence:
        yield from _silence(objective, scrape_ns, interval_ns)


def fires(objective: Objective, rules: Sequence[BurnRule], scrape_ns: int) -> str:
    """Return the alert of these tiers; its value is the highest burn rate, as last known.

    A service that sends to an Alertmanager itself says more, so this one waits until that
    service is gone, or does not get through.
    """
    windows = "|".join(window_text(rule.long_ns) for rule in rules)
    rates = f'{BURN_RATE}{{{_named(objective)}, window=~"{windows}"}}'
    firing = state(objective, AlertKind.BURN, rules[0].severity)
    return (
        f"max by ({_LABELS}) (last_over_time({rates}[{_HELD}]))\n"
        f"and on ({_LABELS}) {firing}{_unless_reported(objective, scrape_ns)}"
    )


def silent(objective: Objective, scrape_ns: int) -> str:
    """Return the alert of requests that came steadily for an hour, and stay away now."""
    firing = state(objective, AlertKind.NO_DATA, Severity.PAGE)
    return f"max by ({_LABELS}) ({firing}){_unless_reported(objective, scrape_ns)}"


def _unless_reported(objective: Objective, scrape_ns: int) -> str:
    """The condition that no service tells an Alertmanager of the objective."""
    if objective.receivers and "alertmanager" not in objective.receivers:
        return ""
    return f"\nunless on (slo) (\n{_reported(objective, scrape_ns)}\n)"


def state(objective: Objective, kind: AlertKind, severity: Severity) -> str:
    """Return what is recorded, 1, while an alert fires; in its own rules, of the time before."""
    return f'{FIRING}{{{_named(objective)}, alertname="{kind}", severity="{severity}"}}'


def alarm(objective: Objective, rules: tuple[BurnRule, ...], expression: str) -> str:
    """1 while something is so, 0 while it is not: there as long as requests are counted."""
    counted = _series(REQUESTS, objective, rules[0].short_ns)
    return f"count by ({_LABELS}) (\n{expression}\n)\nor\n0 * max by ({_LABELS}) ({counted})"


def absent(objective: Objective) -> str:
    """No service watches this objective; one of each route has no counters at first."""
    return f"absent({WATCHED}{{{_named(objective)}}})"


def _states(objective: Objective, rules: Sequence[BurnRule]) -> Iterator[Recorded]:
    """Yield whether tiers are calm, whether they burn, and whether their alert fires."""
    if not rules:
        return
    severity = rules[0].severity
    for rule in rules:
        labels = {"severity": str(severity), "factor": f"{rule.factor:.6g}"}
        labels["window"] = window_text(rule.long_ns)
        yield NOT_CALM, labels, _not_calm(objective, rule)
    labels = {"severity": str(severity)}
    yield BURNING, labels, _burning(objective, rules)
    burning = f'{BURNING}{{{_named(objective)}, severity="{severity}"}}'
    keep = window_text(keep_firing_ns(objective, severity))
    labels = {"alertname": str(AlertKind.BURN), "severity": str(severity)}
    yield FIRING, labels, f"max by ({_LABELS}) (max_over_time({burning}[{keep}]))"


def _burning(objective: Objective, rules: Sequence[BurnRule]) -> str:
    """1 where a tier fires, or where one is not calm, as far as is known, and the alert fires."""
    severity = rules[0].severity
    begins = "\nor\n".join(_begins(objective, rule) for rule in rules)
    if severity is Severity.TICKET:
        page = state(objective, AlertKind.BURN, Severity.PAGE)
        begins = f"(\n{begins}\n)\nunless on ({_LABELS}) {page}"
    not_calm = f'{NOT_CALM}{{{_named(objective)}, severity="{severity}"}}'
    held = (
        f"max by ({_LABELS}) (last_over_time({not_calm}[{_HELD}])) == 1\n"
        f"and on ({_LABELS}) {state(objective, AlertKind.BURN, severity)}"
    )
    return f"count by ({_LABELS}) (\n(\n{begins}\n)\nor\n(\n{held}\n)\n) > bool 0"


def _begins(objective: Objective, rule: BurnRule) -> str:
    bad, came_bad, requests = (
        _series(name, objective, rule.long_ns) for name in (BAD, CAME_BAD, REQUESTS)
    )
    long, short = (_series(BURN_RATE, objective, one) for one in (rule.long_ns, rule.short_ns))
    coverage = _series(COVERAGE, objective, rule.long_ns)
    usual = _series(USUAL_RATE, objective, objective.period_ns)
    least = LEAST_BAD[rule.severity]
    if rule.least_ratio:
        share = rule.least_ratio * rule.factor * objective.budget_ratio * rule.long_ns / 1e9
        enough = (
            f"{came_bad} >= {least}\nand on ({_LABELS}) {bad} >= "
            f"on ({_LABELS}) {usual} * {share:.6g}"
        )
    else:
        share = FAINT_RATIO * rule.long_ns / 1e9
        enough = (
            f"{came_bad} >= on ({_LABELS}) {least} - {least - LEAST_BAD_FAINT} * "
            f"({requests} <= bool on ({_LABELS}) {usual} * {share:.6g})"
        )
    return (
        f"(\n{long} * on ({_LABELS}) {coverage} > {rule.factor:.6g}\n"
        f"and on ({_LABELS}) {short} > {rule.factor:.6g}\n"
        f"and on ({_LABELS}) {enough}\n)"
    )


def _not_calm(objective: Objective, rule: BurnRule) -> str:
    """1 or 0; nothing while no request comes: then it is unknown."""
    long, short = (_series(BURN_RATE, objective, one) for one in (rule.long_ns, rule.short_ns))
    coverage = _series(COVERAGE, objective, rule.long_ns)
    calm = f"{CALM_SHARE * rule.factor:.6g}"
    return (
        f"({long} * on ({_LABELS}) {coverage} >= bool {calm})\n"
        f"* on ({_LABELS}) ({short} >= bool {calm})"
    )


def _silence(objective: Objective, scrape_ns: int, interval_ns: int) -> Iterator[Recorded]:
    """Yield what tells whether requests stay away, and whether the alert of that fires."""
    part = {"window": window_text(HOUR_NS // traffic.PARTS)}
    yield TRAFFIC, part, f"{_increase(_CAME_COUNTER, objective, part['window'])} > bool 0"
    for look_ns in traffic.LOOKS_NS:
        look = window_text(look_ns)
        yield LOOK, {"window": look}, _increase(_CAME_COUNTER, objective, look)
    yield STEADY, {"window": window_text(HOUR_NS)}, _steady(objective, interval_ns)
    yield EXPECTED, {"window": window_text(traffic.LOOK_NS)}, _expected(objective)
    labels = {"alertname": str(AlertKind.NO_DATA), "severity": str(Severity.PAGE)}
    yield FIRING, labels, _silent(objective, scrape_ns, interval_ns)


def _steady(objective: Objective, interval_ns: int) -> str:
    """The requests of ten minutes in the mean of an hour, where they came steadily."""
    parts = _series(TRAFFIC, objective, HOUR_NS // traffic.PARTS)
    look = _series(LOOK, objective, traffic.LOOK_NS)
    least = traffic.BUSY_PARTS / traffic.PARTS * HOUR_NS / interval_ns
    return (
        f"avg_over_time({look}[{window_text(HOUR_NS - traffic.LOOK_NS)}])\n"
        f"and on ({_LABELS}) sum_over_time({parts}[{window_text(HOUR_NS)}]) >= {least:.6g}"
    )


def _expected(objective: Objective) -> str:
    """The requests that ten minutes would bring; while that alert fires, as it was before."""
    known = _series(EXPECTED, objective, traffic.LOOK_NS)
    silence = state(objective, AlertKind.NO_DATA, Severity.PAGE)
    before = "\nor ".join(_before(objective, look_ns) for look_ns in traffic.LOOKS_NS)
    return (
        f"(\nmax by ({_LABELS}) ({known})\nand on ({_LABELS}) {silence}\n)\n"
        f"or max by ({_LABELS}) (\n{before}\n)"
    )


def _before(objective: Objective, look_ns: int) -> str:
    """The same of the hour before a look."""
    return f"{_series(STEADY, objective, HOUR_NS)} offset {window_text(look_ns)}"


def _silent(objective: Objective, scrape_ns: int, interval_ns: int) -> str:
    """1 where requests stay away, and until they come again, or a day has passed."""
    expected = _series(EXPECTED, objective, traffic.LOOK_NS)
    look = _series(LOOK, objective, traffic.LOOK_NS)
    bad = _increase(_CAME_BAD_COUNTER, objective, window_text(traffic.LOOK_NS))
    latest, latest_bad = (
        _increase(counter, objective, window_text(traffic.FAILING_NS))
        for counter in (_CAME_COUNTER, _CAME_BAD_COUNTER)
    )
    back_ns = max(traffic.RETURN_NS, _LEAST_SCRAPES * scrape_ns)
    back = _increase(_CAME_COUNTER, objective, window_text(back_ns))
    back_ratio = traffic.RETURNED_RATIO * back_ns / traffic.LOOK_NS
    page = state(objective, AlertKind.BURN, Severity.PAGE)
    silence = state(objective, AlertKind.NO_DATA, Severity.PAGE)
    a_day = _NEARLY * DAY_NS / interval_ns
    fell = "\nor\n".join(_fell(objective, look_ns) for look_ns in traffic.LOOKS_NS)
    return (
        f"count by ({_LABELS}) (\n"
        f"{back} <= on ({_LABELS}) "
        f"clamp_min({expected} * {back_ratio:.6g}, {traffic.LEAST_RETURNED})\n"
        f"and on ({_LABELS}) (\n(\n(\n{fell}\n)\n"
        f"unless on ({_LABELS}) (\n{bad} >= {LEAST_BAD[Severity.PAGE]}\n"
        f"and on ({_LABELS}) {latest_bad} >= on ({_LABELS}) {latest} * {OUTAGE_BAD:g}\n)\n"
        f"unless on ({_LABELS}) (\n{page}\nand on ({_LABELS}) {look} > 0\n)\n"
        f"unless on ({_LABELS}) (\n{_lull(objective)}\n)\n)\n"
        f"or\n(\n{silence}\nunless on ({_LABELS}) "
        f"count_over_time({silence}[{_HELD}]) >= {a_day:.6g}\n)\n)\n) > bool 0"
    )


def _fell(objective: Objective, look_ns: int) -> str:
    """Far fewer requests than such a while would bring by chance."""
    expected = _before(objective, look_ns)
    came = _series(LOOK, objective, look_ns)
    looks = look_ns / traffic.LOOK_NS
    return (
        f"(\n{came} * {traffic.MISSING_OF_EACH} <= on ({_LABELS}) "
        f"{expected} * {looks:g} - {traffic.LEAST_MISSING}\n"
        f"and on ({_LABELS}) {came} <= on ({_LABELS}) "
        f"{expected} * {traffic.COLLAPSED_RATIO * looks:g}\n)"
    )


def _lull(objective: Objective) -> str:
    """The objectives that were as quiet at this hour on each of the days before."""
    look, hour = _series(LOOK, objective, traffic.LOOK_NS), window_text(HOUR_NS)
    expected = _series(EXPECTED, objective, traffic.LOOK_NS)
    ago = [window_text(day * DAY_NS - HOUR_NS // 2) for day in range(1, traffic.LULL_DAYS + 1)]
    return f"\nand on ({_LABELS}) ".join(
        f"min_over_time({look}[{hour}] offset {one}) <= on ({_LABELS}) "
        f"{expected} * {traffic.RETURNED_RATIO:g}"
        for one in ago
    )


def _reported(objective: Objective, scrape_ns: int) -> str:
    """Services that watch this objective, and whose alerts reach an Alertmanager."""
    within = window_text(max(_REPORTED_NS, _LEAST_SCRAPES * scrape_ns))
    waiting = 'latencytrace_service_notices_waiting{sink="alertmanager"}'
    return (
        f"last_over_time(latencytrace_slo_target_ratio{{{_named(objective)}}}[{within}])\n"
        f"and on (job, instance) min_over_time({waiting}[{within}]) == 0"
    )


def _active(objective: Objective, rules: Sequence[BurnRule]) -> Iterator[Recorded]:
    """Yield whether requests came of late, by how long is a gap in what was observed."""
    pauses_ns = {rule.longest_pause_ns for rule in rules}
    counted_ns = pauses_ns & {rule.short_ns for rule in rules}
    windows = "|".join(map(window_text, sorted(counted_ns)))
    if windows:
        yield ACTIVE, {}, f'{REQUESTS}{{{_named(objective)}, window=~"{windows}"}} > bool 0'
    for pause_ns in sorted(pauses_ns - counted_ns):
        pause = window_text(pause_ns)
        yield (
            ACTIVE,
            {"window": pause},
            f"{_increase(_TOTAL_COUNTER, objective, pause)} > bool 0",
        )


def _covered(objective: Objective, rule: BurnRule, interval_ns: int) -> str:
    active = _series(ACTIVE, objective, rule.longest_pause_ns)
    observed = f"sum_over_time({active}[{window_text(rule.long_ns)}])"
    return f"clamp_max({observed} * {interval_ns / rule.long_ns:.6g}, 1)"


def _usual_rate(objective: Objective, rules: tuple[BurnRule, ...]) -> str:
    """Requests a second in the mean of the period, where there were any."""
    period = window_text(objective.period_ns)
    requests = _series(REQUESTS, objective, rules[-1].short_ns)
    active = _series(ACTIVE, objective, rules[-1].longest_pause_ns)
    return (
        f"sum_over_time({requests}[{period}]) / on ({_LABELS}) "
        f"(sum_over_time({active}[{period}]) > 0) / {rules[-1].short_ns / 1e9:.6g}"
    )


def _budget_left(objective: Objective, rules: tuple[BurnRule, ...], interval_ns: int) -> str:
    """Of the whole period, from what was recorded: counters would have to be kept as long."""
    period = window_text(objective.period_ns)
    short_ns = min(rule.short_ns for rule in rules)
    bad, requests = (
        f"sum_over_time({_series(name, objective, short_ns)}[{period}])"
        for name in (BAD, REQUESTS)
    )
    active = _series(ACTIVE, objective, rules[-1].longest_pause_ns)
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


def _increase(counter: str, objective: Objective, window: str) -> str:
    return f"sum by ({_LABELS}) (increase({counter}{{{_named(objective)}}}[{window}]))"


def _series(name: str, objective: Objective, window_ns: int) -> str:
    return f'{name}{{{_named(objective)}, window="{window_text(window_ns)}"}}'


def _named(objective: Objective) -> str:
    return f'slo="{objective.name}"'
