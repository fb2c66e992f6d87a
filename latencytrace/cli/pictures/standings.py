"""Objectives and how they stand: burn rates, the budget that is left, alerts."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from latencytrace.cli.pictures.fitted_table import table
from latencytrace.model.objective import EACH_ROUTE, length_text
from latencytrace.model.texts.units import (
    UNKNOWN,
    count,
    duration,
    moment,
    objective_text,
    share,
    target,
    times,
)
from latencytrace.service.answers.documents import (
    AlertDocument,
    BurnRateDocument,
    MaintenanceDocument,
    ObjectiveDocument,
)

LEFT = "Budget left counts time without requests as equally busy, and all good."
FIRES = Text("firing", "bold red")
NONE_WATCHED = (
    "The service watches no objective: name a file of them when it starts, "
    "with `latencytrace serve --objectives FILE`."
)


def picture(
    objectives: list[ObjectiveDocument],
    alerts: list[AlertDocument],
    maintenance: Sequence[MaintenanceDocument] = (),
) -> list[RenderableType]:
    """Each objective with its tiers, and the alerts below it; windows of maintenance first."""
    parts: list[RenderableType] = [*windows(maintenance), ""] if maintenance else []
    for objective in objectives:
        parts += [Text(f"{objective['name']}  {objective['display_name']}", "bold")]
        rates = objective["burn_rates"]
        parts += [_target(objective), _budget(objective), _tiers(rates), *_not_yet(rates), ""]
        for alert in alerts:
            labels = alert["labels"]
            if (labels.get("slo"), labels.get("route")) == (objective["name"], objective["route"]):
                parts += [*_alert(alert), ""]
    if not objectives and not alerts:
        return [NONE_WATCHED]
    firing = count(len(alerts), "alert", "alerts") if alerts else "No alert"
    known = any(one["budget_left_ratio"] is not None for one in objectives)
    assumed = [LEFT] if known else []
    return [*parts, *assumed, f"{count(len(objectives), 'objective')}. {firing} firing."]


def windows(maintenance: Sequence[MaintenanceDocument]) -> list[RenderableType]:
    return [
        f"maintenance {one['name']}{' (now)' if one['is_on'] else ''}: "
        f"{moment(one['start'])} to {moment(one['end'])}, of "
        f"{', '.join([*one['objectives'], *one['services']]) or 'all objectives'}"
        for one in maintenance
    ]


def _target(objective: ObjectiveDocument) -> str:
    of = (objective["service"], objective["route"], objective["model"], objective["version"])
    since = objective["budget_since"]
    period = (
        length_text(objective["period_ns"])
        if since is None
        else f"the calendar's period since {moment(since)}"
    )
    return (
        f"{target(objective['target_ratio'])} of {' · '.join(filter(None, of))}: "
        f"{_wanted(objective)}, over {period}"
    )


def _wanted(objective: ObjectiveDocument) -> str:
    slices = objective["time_slice_ns"], objective["time_slice_target_ratio"]
    return objective_text(objective["measure"], objective["threshold_ns"], *slices)


def _budget(objective: ObjectiveDocument) -> str:
    if objective["route"] == EACH_ROUTE:
        return "no request yet; each route is shown here from its first one on"
    counted_one = "request" if objective["time_slice_ns"] is None else "slice"
    counted = f"{count(objective['requests'], counted_one)}, {objective['bad_requests']:,} bad"
    left = objective["budget_left_ratio"]
    if left is None:
        return f"{counted}; nothing is known of the budget"
    exhaustion_ns = objective["exhaustion_ns"]
    if left <= 0:
        return f"{counted}; budget spent: {share(left)} left"
    gone = "" if exhaustion_ns is None else f", runs out in {duration(exhaustion_ns)} at this rate"
    return f"{counted}; budget left: {share(left)}{gone}"


def _tiers(rates: list[BurnRateDocument]) -> RenderableType:
    drawn = table(
        *("alert", "threshold", "long window", "now", "short window", "now", ""),
        left=("alert", ""),
    )
    for rate in rates:
        drawn.add_row(
            rate["severity"],
            times(rate["factor"]),
            length_text(rate["long_ns"]),
            _times(rate["long"]),
            length_text(rate["short_ns"]),
            _times(rate["short"]),
            FIRES if rate["firing"] else "",
        )
    return drawn


def _not_yet(rates: list[BurnRateDocument]) -> list[str]:
    """Say what an alert takes, where requests are bad enough for one and none fires."""
    if any(rate["firing"] for rate in rates):
        return []
    burns = [
        (round(rate["long_ns"] * rate["factor"] / rate["long"]), rate["long"])
        for rate in rates
        if rate["long"] and rate["short"] and min(rate["long"], rate["short"]) > rate["factor"]
    ]
    if not burns:
        return []
    needed_ns, burn = min(burns)
    needed = f"{duration(needed_ns)} of such requests, and enough that are bad"
    return [f"No alert yet: at {_times(burn)} it takes {needed}."]


def _alert(alert: AlertDocument) -> list[RenderableType]:
    head = f"{alert['labels']['severity']} since {moment(alert['started'])}"
    lines: list[RenderableType] = [Text(head, "bold red"), f"  {alert['summary']}"]
    lines += [f"  {line}" for line in alert["description"]]
    commands = []
    if alert.get("acknowledged") is None:
        commands = [f"  latencytrace acknowledge {alert['fingerprint'][:8]}"]
    commands += [
        f"  latencytrace trace {request['trace_id']}  {request['summary']}"
        for request in alert["slowest"]
    ]
    # Lines that the terminal breaks, not we: they are copied, or clicked, whole.
    for line in (*commands, f"  {alert['url']}"):
        lines.append(Text(line, no_wrap=True, overflow="ignore"))
    return lines


def _times(rate: float | None) -> str:
    return UNKNOWN if rate is None else times(rate)
