"""The tail: which requests are slowest, and which stage makes them so."""

from typing import Final

from dashboards.generate.cohort_variables import COHORT_VARIABLES, alerts
from dashboards.generate.dashboard import choice, dashboard, slowest_of, variable
from dashboards.generate.panel import HALF, WHOLE, target
from dashboards.generate.panels import bars, graph, heatmap
from dashboards.generate.queries import (
    COHORT,
    FAILED,
    PERIOD,
    REQUEST,
    REQUESTS,
    SLOWEST_REQUESTS,
    SLOWEST_STAGES,
    STAGE,
    TPOT,
    TTFT,
    buckets,
    mean,
    quantile,
    total,
)
from dashboards.generate.tables import table

_QUANTILE = "$quantile"
_ROUTE = ["service", "route"]
_CHOSEN_STAGES = f'{COHORT},stage=~"$stage"'
_OF_ROUTE = "{{service}} {{route}}"
_STAGE_OF_ROUTE = f"{_OF_ROUTE} {{{{stage}}}}"
_OF_CELL = slowest_of("__data.fields.Service", "__data.fields.Route")
_OF_LINE = slowest_of("__field.labels.service", "__field.labels.route")
_FAILURES = total(REQUESTS, _ROUTE, where=f"{COHORT},{FAILED}", period=PERIOD)
_STAGE_QUANTILE, _STAGE_MEDIAN = (
    quantile(share, STAGE, [*_ROUTE, "stage"], where=_CHOSEN_STAGES, period=PERIOD)
    for share in (_QUANTILE, 0.5)
)
_OF_SLOWEST, _OF_ALL = (
    f"{total(stages, ['stage'])} / on () group_left () {total(requests)}"
    for stages, requests in (
        (SLOWEST_STAGES, SLOWEST_REQUESTS),
        (f"{STAGE}_sum", f"{REQUEST}_count"),
    )
)

_SLOWEST = [
    table(
        "Slowest routes",
        "Over the whole time shown: the chosen quantile of each route, its mean, how many "
        "requests there were and how many of them failed. Click a route for its slowest requests.",
        {
            "Quantile": (quantile(_QUANTILE, REQUEST, _ROUTE, period=PERIOD), "s", "gauge"),
            "Mean": (mean(REQUEST, _ROUTE, period=PERIOD), "s", "auto"),
            "Requests": (total(REQUESTS, _ROUTE, period=PERIOD), "locale", "auto"),
            "Failed": (_FAILURES, "locale", "auto"),
        },
        labels=_ROUTE,
        links=[_OF_CELL],
    ),
    graph(
        "Duration of each route",
        "The chosen quantile. The points are single requests: click one for its trace, or a line "
        "for the route's slowest requests.",
        "s",
        [target(quantile(_QUANTILE, REQUEST, _ROUTE), _OF_ROUTE, exemplars=True)],
        width=WHOLE,
        links=[_OF_LINE],
    ),
]
_STAGES = [
    graph(
        "Where the slowest hundredth spends its time",
        "Critical-path time in each stage of requests as slow as the slowest hundredth of the "
        "minutes before. Means over these requests, so that they add up to their mean duration.",
        "s",
        [target(_OF_SLOWEST, "{{stage}}")],
        by_stage=True,
        stacked=True,
        least_step="1m",
    ),
    graph(
        "What they spend more than usual",
        "The same less the mean of all requests: the stage that grows most makes the tail.",
        "s",
        [target(f"({_OF_SLOWEST}) - on (stage) ({_OF_ALL})", "{{stage}}")],
        by_stage=True,
        below_zero=True,
        least_step="1m",
    ),
    graph(
        "Each stage at the chosen quantile",
        "Critical-path time of the requests that have the stage. Quantiles of stages do not add "
        "up to that of the whole: they are of different requests.",
        "s",
        [target(quantile(_QUANTILE, STAGE, ["stage"], where=_CHOSEN_STAGES), "{{stage}}")],
        by_stage=True,
    ),
    graph(
        "Each stage's median",
        "The same for the requests in the middle: a stage that is slow only in the graph beside "
        "this one makes the tail.",
        "s",
        [target(quantile(0.5, STAGE, ["stage"], where=_CHOSEN_STAGES), "{{stage}}")],
        by_stage=True,
    ),
    bars(
        "Slowest stages",
        "Over the whole time shown: the stages that take longest at the chosen quantile.",
        "s",
        f"topk(10, {_STAGE_QUANTILE})",
        _STAGE_OF_ROUTE,
    ),
    bars(
        "Stages with the widest spread",
        "Over the whole time shown: the chosen quantile of a stage less its median. What is large "
        "here is what sets slow requests apart.",
        "s",
        f"topk(10, {_STAGE_QUANTILE} - {_STAGE_MEDIAN})",
        _STAGE_OF_ROUTE,
    ),
]
_SINGLE_REQUESTS = [
    heatmap(
        "Distribution of durations",
        "How many requests took how long. The points are single requests: click one for its "
        "trace.",
        buckets(REQUEST),
    ),
    heatmap(
        "Distribution of time in the chosen stages",
        "How many requests spent how long in each of the chosen stages; choose one at the top to "
        "see it alone.",
        buckets(STAGE, where=_CHOSEN_STAGES),
    ),
]
_TOKENS = [
    graph(
        "Time to first token",
        "The chosen quantile, where it is known.",
        "s",
        [target(quantile(_QUANTILE, TTFT, _ROUTE), _OF_ROUTE, exemplars=True)],
        width=HALF,
        links=[_OF_LINE],
    ),
    graph(
        "Time per output token",
        "The chosen quantile of each request's mean, where it is known.",
        "s",
        [target(quantile(_QUANTILE, TPOT, _ROUTE), _OF_ROUTE, exemplars=True)],
        width=HALF,
        links=[_OF_LINE],
    ),
]

TAIL: Final = dashboard(
    "latencytrace-tail",
    "latencytrace / Tail",
    "Which requests are slowest, and which stage makes them so.",
    variables=[
        *COHORT_VARIABLES,
        variable("stage", f"{STAGE}_count{{{COHORT}}}"),
        choice("quantile", "Quantile", ["0.5", "0.9", "0.95", "0.99", "0.999"], "0.99"),
    ],
    annotations=[alerts()],
    rows={
        "The slowest": _SLOWEST,
        "Which stage": _STAGES,
        "Distributions": _SINGLE_REQUESTS,
        "Tokens": _TOKENS,
    },
)
