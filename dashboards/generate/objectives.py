"""Objectives: how they stand, how fast their budgets are spent, and what alerts."""

from typing import Final

from dashboards.generate.cohort_variables import SCRAPED_VARIABLES, alerts
from dashboards.generate.dashboard import dashboard, link_of_data, variable
from dashboards.generate.panel import DAYS, WHOLE, target
from dashboards.generate.panels import graph, number, states
from dashboards.generate.queries import PERIOD, SCRAPED, total
from dashboards.generate.tables import table

_SLO = "latencytrace_slo"
_REQUESTS = f"{_SLO}_requests_total"
_BAD = f"{_SLO}_bad_requests_total"
_CHOSEN = f'{SCRAPED},service=~"$service",route=~"$route",slo=~"$slo"'
_KEYS = ["slo", "service", "route"]


def _each(metric: str, how: str = "max", *more: str) -> str:
    """A value of each objective: `how` says which one counts where several services tell it."""
    return f"{how} by ({', '.join([*_KEYS, *more])}) ({_SLO}_{metric}{{{_CHOSEN}}})"


def _bad_share(period: str) -> str:
    """Of the requests counted; 0 where none of them was bad."""
    bad, every = (total(name, _KEYS, where=_CHOSEN, period=period) for name in (_BAD, _REQUESTS))
    return f"{bad} / {every}"


_DAY_S: Final = 86_400
_GONE_IN: Final = _each("exhaustion_seconds", "min")
_STATE: Final = (
    f'max by ({", ".join(_KEYS)}) (2 * {_SLO}_alert_firing{{{_CHOSEN},severity="page"}}'
    f" or {_SLO}_alert_firing{{{_CHOSEN}}})"
)
# The factors of the alerts' tiers: above 6 somebody is paged, above 1 the budget does not last.
_OF_BURN: Final = ((None, "green"), (1, "yellow"), (6, "orange"), (14.4, "red"))
_OF_BUDGET: Final = ((None, "red"), (0, "orange"), (0.25, "green"))
_OF_DAYS: Final = ((None, "red"), (1, "orange"), (7, "green"))
_OF_SECONDS: Final = tuple((days and days * _DAY_S, color) for days, color in _OF_DAYS)
_TO_TAIL = link_of_data(
    "The tail of its requests",
    "/d/latencytrace-tail?${__url_time_range}&${datasource:queryparam}"
    "&var-service=${__data.fields.Service:percentencode}"
    "&var-route=${__data.fields.Route:percentencode}",
)
_SUMMARY = [
    number("Objectives", "Those that are evaluated.", "short", f"count({_each('target_ratio')})"),
    number(
        "Alerts firing",
        "Of the service's own evaluation.",
        "short",
        f"sum({_each('alert_firing', 'max', 'alertname', 'severity')})",
        thresholds=((None, "green"), (1, "red")),
    ),
    number(
        "Least budget left",
        "Of the objective that has least; below 0 %: more was bad than the period allows.",
        "percentunit",
        f"min({_each('budget_left_ratio', 'min')})",
        below_zero=True,
        thresholds=_OF_BUDGET,
    ),
    number(
        "First budget gone in",
        "At the burn rate of now, if it lasts. Nothing is shown while no budget is being spent.",
        "s",
        f"min({_GONE_IN})",
        thresholds=_OF_SECONDS,
    ),
    number(
        "Fastest burn",
        "How many times faster than sustainable a budget is spent, in the window where it is "
        "most; at 1 it lasts exactly the period.",
        "none",
        f"max({_each('burn_rate')})",
        thresholds=_OF_BURN,
    ),
    number(
        "Bad requests",
        "Share of all requests that violate an objective.",
        "percentunit",
        f"{total(_BAD, where=_CHOSEN)} / {total(_REQUESTS, where=_CHOSEN)}",
    ),
]
_STANDING = [
    table(
        "Each objective",
        "What it asks for, and how it stands. Requests and bad ones are of the time shown, the "
        "budget is of the whole period. Click one for the tail of its requests.",
        {
            "Burn rate": (_each("burn_rate"), "none", "gauge"),
            "Budget left": (_each("budget_left_ratio", "min"), "percentunit", "color-text"),
            "Gone in": (_GONE_IN, "s", "color-text"),
            "Target": (_each("target_ratio"), "percentunit", "auto"),
            "Within": (_each("threshold_seconds"), "s", "auto"),
            "Requests": (total(_REQUESTS, _KEYS, where=_CHOSEN, period=PERIOD), "locale", "auto"),
            "Bad": (total(_BAD, _KEYS, where=_CHOSEN, period=PERIOD), "locale", "auto"),
        },
        labels=_KEYS,
        links=[_TO_TAIL],
        thresholds={"Burn rate": _OF_BURN, "Budget left": _OF_BUDGET, "Gone in": _OF_SECONDS},
    )
]
_BUDGETS = [
    graph(
        "Budget left",
        "Of the bad requests that the period allows. Below 0 %: more were bad.",
        "percentunit",
        [target(_each("budget_left_ratio", "min"), "{{slo}}")],
        below_zero=True,
        thresholds=_OF_BUDGET,
    ),
    graph(
        "Budget gone in",
        "At the burn rate of that moment, if it lasted.",
        DAYS,
        [target(f"{_GONE_IN} / {_DAY_S}", "{{slo}}")],
        thresholds=_OF_DAYS,
        logarithmic=True,
    ),
]
_BURNING = [
    graph(
        "Burn rate by window",
        "How many times faster than sustainable the budget is spent, in each window that alerts "
        "watch: of the objective where it is fastest. Choose one at the top to see it alone. An "
        "alert fires when a long window and a twelfth of it are both over its factor; the lines "
        "are at 1, 6 and 14.4.",
        "none",
        [target(f"max by (window) ({_SLO}_burn_rate{{{_CHOSEN}}})", "{{window}}")],
        width=WHOLE,
        thresholds=_OF_BURN,
    ),
    graph(
        "Share of bad requests",
        "Of each objective's requests.",
        "percentunit",
        [target(_bad_share("$__rate_interval"), "{{slo}}")],
    ),
    graph(
        "Burn rate by objective",
        "The bad share of one step of the graph, as a multiple of what is allowed.",
        "none",
        [target(f"({_bad_share('$__rate_interval')}) / (1 - {_each('target_ratio')})", "{{slo}}")],
        thresholds=_OF_BURN,
    ),
]
_ALERTS = [
    states(
        "Alerts",
        "When the service's own evaluation fired. Alertmanager has those of Prometheus' rules.",
        _STATE,
        "{{slo}}",
        {0: ("none", "green"), 1: ("ticket", "orange"), 2: ("page", "red")},
    )
]

OBJECTIVES: Final = dashboard(
    "latencytrace-objectives",
    "latencytrace / Objectives",
    "How objectives stand, how fast their budgets are spent, and what alerts.",
    variables=[
        *SCRAPED_VARIABLES,
        variable("service", f"{_SLO}_target_ratio{{{SCRAPED}}}"),
        variable("route", f'{_SLO}_target_ratio{{{SCRAPED},service=~"$service"}}'),
        variable("slo", f'{_SLO}_target_ratio{{{SCRAPED},service=~"$service",route=~"$route"}}'),
    ],
    annotations=[alerts(',slo=~"$slo"')],
    rows={
        "Now": _SUMMARY,
        "How they stand": _STANDING,
        "Budgets": _BUDGETS,
        "How fast they burn": _BURNING,
        "What fired": _ALERTS,
    },
)
