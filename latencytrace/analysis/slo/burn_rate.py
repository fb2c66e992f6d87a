"""The speed at which an error budget is spent: counts and an objective in, burn rates out.

Source: Google, The Site Reliability Workbook, chapter 5 (multiwindow, multi-burn-rate
alerts). We differ in four things: windows scale with the period, so that a factor always
means the same share of the budget; a window that is not observed whole counts only for the
part that is (`coverage_ratio`); a handful of bad requests never fires; and neither do many
bad of few, where these few spend less than half of what the factor means: a burn rate says
nothing of how much traffic there is. An outage at little traffic has a tier of its own, which
asks for nearly all requests of a while to be bad, however few there are; where traffic is far
below the usual one, five in a row will do.
"""

from latencytrace.model import BurnRule, Objective, Severity, Tally
from latencytrace.model.objective import DAY_NS, HOUR_NS, MINUTE_NS, SHORT_WINDOWS_IN_LONG

REFERENCE_PERIOD_NS = 30 * DAY_NS
SHORTEST_WINDOW_NS = 10 * 10**9  # what counts are kept in
CALM_SHARE = 0.9  # of the factor: an alert that fires at 6 is over below 5.4
_KEEP_FIRING_NS = {Severity.PAGE: 5 * MINUTE_NS, Severity.TICKET: 30 * MINUTE_NS}
LEAST_KEEP_FIRING_NS = 2 * MINUTE_NS  # of a short period: people read what begins and ends
LEAST_BAD = {Severity.PAGE: 10, Severity.TICKET: 20}  # requests in the long window
LEAST_BAD_SLICES = 2  # of time, each of which is many requests
FAINT_RATIO = 0.15  # of the usual traffic, and less: the outage may have taken the rest
# Five of five by chance, where a twentieth is bad: 3e-7 in a window, of which a month has 3000.
LEAST_BAD_FAINT = 5

# Factor, long window over 30 days, severity; what of the budget that is spent when it fires
# at the usual traffic must at least be; that share of the budget. The fastest needs most, for
# 1 % is little: `tests/benchmarks/bench_alerts.py` shows what it takes to be right.
_TIERS = (
    (28.8, 15 * MINUTE_NS, Severity.PAGE, 0.75),  # 1 %
    (14.4, HOUR_NS, Severity.PAGE, 0.5),  # 2 %
    (6.0, 6 * HOUR_NS, Severity.PAGE, 0.5),  # 5 %
    (3.0, DAY_NS, Severity.TICKET, 0.5),  # 10 %
    (1.0, 3 * DAY_NS, Severity.TICKET, 0.5),  # 10 %
)
OUTAGE_BAD = 0.9  # of the requests of its window; `tests/benchmarks/bench_outages.py`
_OUTAGE_SPENT = 0.03  # of the budget, were the traffic of its window the usual one
_OUTAGE_LEAST_NS = 864 * 10**9  # of 30 days: blips and restarts last less
_OUTAGE_PAUSE = 0.5  # of its window: two requests so far apart are traffic enough


def scaled_rules(period_ns: int) -> tuple[BurnRule, ...]:
    """The tiers for a period, the fastest first; too short ones to be counted are left out."""
    rules = (
        BurnRule(
            factor=factor,
            long_ns=(scaled_ns := round(long_ns * period_ns / REFERENCE_PERIOD_NS)),
            severity=severity,
            least_ratio=least_ratio,
            longest_pause_ns=scaled_ns // SHORT_WINDOWS_IN_LONG,
        )
        for factor, long_ns, severity, least_ratio in _TIERS
    )
    return tuple(rule for rule in rules if rule.short_ns >= SHORTEST_WINDOW_NS)


def outage_rule(objective: Objective) -> BurnRule:
    """The tier that pages when nearly every request is bad, however few there are.

    Its window is long enough for such an outage to spend 3 % of the budget at the traffic
    that there is; so it needs no share of the usual traffic. Few requests are far
    apart: a longer pause than in the other tiers is no gap in what was observed.
    """
    factor = round(OUTAGE_BAD / objective.budget_ratio, 6)
    least_ns = round(_OUTAGE_LEAST_NS * objective.period_ns / REFERENCE_PERIOD_NS)
    long_ns = max(least_ns, round(_OUTAGE_SPENT * objective.period_ns / factor))
    return BurnRule(
        factor=factor,
        long_ns=long_ns,
        severity=Severity.PAGE,
        least_ratio=0.0,
        longest_pause_ns=round(_OUTAGE_PAUSE * long_ns),
    )


def can_fire(objective: Objective, rule: BurnRule) -> bool:
    """Return whether any share of bad requests is enough: the highest burn rate is 1 / budget.

    Of time slices one must fit in the short window.
    """
    return rule.factor * objective.budget_ratio < 1 and holds_slice(objective, rule)


def holds_slice(objective: Objective, rule: BurnRule) -> bool:
    """Return whether the short window is as long as a time slice, or no slices are judged."""
    return objective.slices is None or rule.short_ns >= objective.slices.length_ns


def burn_rules(objective: Objective) -> tuple[BurnRule, ...]:
    """The tiers that watch an objective: pages, the fastest first, then the outage; tickets.

    Where its file has tiers of its own, these and no others.
    """
    rules = objective.tiers or scaled_rules(objective.period_ns)
    rules = tuple(rule for rule in rules if can_fire(objective, rule))
    pages = [rule for rule in rules if rule.severity is Severity.PAGE]
    outage = outage_rule(objective)
    is_short = outage.short_ns < SHORTEST_WINDOW_NS or not holds_slice(objective, outage)
    if objective.tiers or not pages or is_short:
        return rules
    return (*pages, outage, *rules[len(pages) :])


def burn_rate(objective: Objective, tally: Tally) -> float | None:
    """Return how many times faster than sustainable the budget is spent; None: no traffic."""
    if tally.total == 0:
        return None
    return tally.bad / tally.total / objective.budget_ratio


def usual_requests(
    objective: Objective, period: Tally, coverage_ratio: float, window_ns: int
) -> float:
    """Return how many requests a window has in the mean of the period.

    Args:
        period: Counts of the objective's period.
        coverage_ratio: The share of the period that was observed.
    """
    observed_ns = coverage_ratio * objective.period_ns
    return period.total * window_ns / observed_ns if observed_ns > 0 else 0.0


def burns(
    objective: Objective,
    rule: BurnRule,
    long: Tally,
    short: Tally,
    coverage_ratio: float,
    usual: float | None = None,
) -> bool:
    """Return whether a tier fires.

    Args:
        long: Counts of its long window.
        short: Counts of its short window.
        coverage_ratio: The share of the long window that was observed.
        usual: How many requests the long window has in the mean of the period; None: what it
            can prevent is left out.
    """
    long_rate, short_rate = burn_rate(objective, long), burn_rate(objective, short)
    least = rule.least_ratio * rule.factor * objective.budget_ratio * (usual or 0.0)
    is_faint = not rule.least_ratio and (usual is None or long.total <= FAINT_RATIO * usual)
    return (
        long_rate is not None
        and short_rate is not None
        and long.came.bad >= least_bad(objective, rule.severity, is_faint=is_faint)
        and long.bad >= least
        and long_rate * coverage_ratio > rule.factor
        and short_rate > rule.factor
    )


def least_bad(objective: Objective, severity: Severity, *, is_faint: bool = False) -> int:
    """Return how many bad ones that came a long window must hold; with fewer it may be chance.

    Args:
        is_faint: Whether it is the outage's, and traffic far below the usual.
    """
    if objective.slices is not None:
        return LEAST_BAD_SLICES * objective.parts
    return LEAST_BAD_FAINT if is_faint else LEAST_BAD[severity]


def is_calm(
    objective: Objective, rule: BurnRule, long: Tally, short: Tally, coverage_ratio: float
) -> bool | None:
    """Return whether a tier that fired has calmed down, with some margin; None: unknown.

    Silence is no recovery: without requests in the short window it cannot be known.
    """
    long_rate, short_rate = burn_rate(objective, long), burn_rate(objective, short)
    if long_rate is None or short_rate is None:
        return None
    calm = CALM_SHARE * rule.factor
    return long_rate * coverage_ratio < calm or short_rate < calm


def has_calmed(objective: Objective, rule: BurnRule, since: Tally, calm_ns: int) -> bool:
    """Return whether a tier that is calm has been so for long enough for its alert to be over.

    Short windows are calm by chance as well, the fewer requests they hold the more often: so a
    burn at the tier's factor must have had time to show, and have shown nothing.

    Args:
        since: Counts of the time since it is calm.
        calm_ns: How long that is; beyond the tier's long window it need not hold more requests.
    """
    if calm_ns < min(keep_firing_ns(objective, rule.severity), rule.long_ns):
        return False
    would_be_bad = since.came.total * rule.factor * objective.budget_ratio
    shows = would_be_bad >= least_bad(objective, rule.severity)
    rate = burn_rate(objective, since)
    is_calm_since = rate is None or rate < CALM_SHARE * rule.factor
    return is_calm_since and (shows or calm_ns >= rule.long_ns)


def keep_firing_ns(objective: Objective, severity: Severity) -> int:
    """Return how long a tier must be calm before its alert is over; scaled as its windows are."""
    scaled_ns = round(_KEEP_FIRING_NS[severity] * objective.period_ns / REFERENCE_PERIOD_NS)
    return max(scaled_ns, LEAST_KEEP_FIRING_NS)


def budget_left_ratio(objective: Objective, period: Tally, coverage_ratio: float) -> float | None:
    """The share of the period's budget that is left; below 0: overdrawn; None: no traffic.

    Args:
        period: Counts of the whole period.
        coverage_ratio: The share of the period that was observed. What was not is taken
            to have had the same traffic and no bad request.
    """
    rate = burn_rate(objective, period)
    return None if rate is None else 1 - rate * coverage_ratio


def exhaustion_ns(
    objective: Objective, left_ratio: float | None, recent_burn_rate: float | None
) -> int | None:
    """Return the time until the budget is gone at the recent rate; 0: it is; None: unknown."""
    if left_ratio is None:
        return None
    if left_ratio <= 0:
        return 0
    if not recent_burn_rate:
        return None
    return round(left_ratio * objective.period_ns / recent_burn_rate)


def detection_ns(objective: Objective, rule: BurnRule, bad_ratio: float) -> int | None:
    """Return how long a step to a share of bad requests burns before a tier fires; None: never."""
    needed_ratio = rule.factor * objective.budget_ratio
    if bad_ratio <= needed_ratio:
        return None
    return round(rule.long_ns * needed_ratio / bad_ratio)


def calming_ns(objective: Objective, rule: BurnRule, bad_ratio: float) -> int:
    """Return how long after a long incident a tier has calmed down."""
    calm_ratio = CALM_SHARE * rule.factor * objective.budget_ratio
    return max(0, round(rule.short_ns * (1 - calm_ratio / bad_ratio)))
