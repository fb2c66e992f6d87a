"""Objectives and how they stand: burn rates, the budget that is left, alerts."""

from datetime import UTC, datetime

from rich.console import RenderableType
from rich.text import Text

from latencytrace.cli.pictures.bars import table
from latencytrace.model.objective import length_text
from latencytrace.model.texts.units import UNKNOWN, count, objective_text, share
from latencytrace.service.answers.documents import (
    AlertDocument,
    BurnRateDocument,
    ObjectiveDocument,
)

FIRES = Text("fires", "bold red")
NONE_WATCHED = (
    "The service watches no objective: name a file of them when it starts, "
    "with `latencytrace serve --objectives FILE`."
)


def picture(
    objectives: list[ObjectiveDocument], alerts: list[AlertDocument]
) -> list[RenderableType]:
    """Each objective with its tiers, and the alerts below it."""
    parts: list[RenderableType] = []
    for objective in objectives:
        parts += [Text(f"{objective['name']}  {objective['display_name']}", "bold")]
        parts += [_target(objective), _budget(objective), _tiers(objective["burn_rates"]), ""]
        for alert in alerts:
            labels = alert["labels"]
            if (labels.get("slo"), labels.get("route")) == (objective["name"], objective["route"]):
                parts += [*_alert(alert), ""]
    if not objectives and not alerts:
        return [NONE_WATCHED]
    firing = count(len(alerts), "alert fires", "alerts fire") if alerts else "No alert fires"
    return [*parts, f"{count(len(objectives), 'objective')}. {firing}."]


def _target(objective: ObjectiveDocument) -> str:
    of = (objective["service"], objective["route"], objective["model"], objective["version"])
    return (
        f"{100 * objective['target_ratio']:.6g} % of {' · '.join(filter(None, of))}: "
        f"{objective_text(objective['measure'], objective['threshold_ns'])}, "
        f"over {length_text(objective['period_ns'])}"
    )


def _budget(objective: ObjectiveDocument) -> str:
    counted = f"{count(objective['requests'], 'request')}, {objective['bad_requests']:,} bad"
    left = objective["budget_left_ratio"]
    if left is None:
        return f"{counted}; nothing is known of the budget"
    exhaustion_ns = objective["exhaustion_ns"]
    if left <= 0:
        return f"{counted}; the budget is overdrawn: {share(left)} left"
    gone = "" if exhaustion_ns is None else f", gone in {length_text(exhaustion_ns)} at this rate"
    return f"{counted}; budget left: {share(left)}{gone}"


def _tiers(rates: list[BurnRateDocument]) -> RenderableType:
    drawn = table("alert", "burns", "over", "now", "and over", "now", "", left=("alert", ""))
    for rate in rates:
        drawn.add_row(
            rate["severity"],
            f"{rate['factor']:g}x",
            length_text(rate["long_ns"]),
            _times(rate["long"]),
            length_text(rate["short_ns"]),
            _times(rate["short"]),
            FIRES if rate["firing"] else "",
        )
    return drawn


def _alert(alert: AlertDocument) -> list[RenderableType]:
    started = datetime.fromtimestamp(int(alert["started"]) // 10**9, UTC)
    head = f"{alert['labels']['severity']} since {started:%Y-%m-%d %H:%M:%S} UTC"
    lines: list[RenderableType] = [Text(head, "bold red"), f"  {alert['summary']}"]
    lines += [f"  {line}" for line in alert["description"]]
    commands = [
        f"  latencytrace trace {request['trace_id']}  {request['summary']}"
        for request in alert["slowest"]
    ]
    # Lines that the terminal breaks, not we: they are copied, or clicked, whole.
    for line in (*commands, f"  {alert['url']}"):
        lines.append(Text(line, no_wrap=True, overflow="ignore"))
    return lines


def _times(rate: float | None) -> str:
    return UNKNOWN if rate is None else f"{rate:.3g}x"
