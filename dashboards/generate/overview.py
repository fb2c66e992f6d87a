"""The overview: how many requests, how slow, where their time goes."""

from collections.abc import Sequence
from typing import Final

from dashboards.generate.cohort_variables import COHORT_VARIABLES, alerts
from dashboards.generate.dashboard import Json, dashboard, slowest_of
from dashboards.generate.panel import THIRD, TOKENS_PER_S, WHOLE, target
from dashboards.generate.panels import graph, heatmap, number
from dashboards.generate.queries import (
    COHORT,
    FAILED,
    REQUEST,
    REQUESTS,
    STAGE,
    TOKENS,
    TPOT,
    TTFT,
    buckets,
    mean,
    quantile,
    total,
)

_UNEXPLAINING = "unattributed|other|runtime|application"
_ALL = total(f"{REQUEST}_count")
_FAILED_SHARE = f"({total(REQUESTS, where=f'{COHORT},{FAILED}')} or vector(0)) / {total(REQUESTS)}"
_MEAN_PER_STAGE = f"{total(f'{STAGE}_sum', ['stage'])} / on () group_left () {_ALL}"
_EXPLAINED = total(f"{STAGE}_sum", where=f'{COHORT},stage!~"{_UNEXPLAINING}"')


def _quantiles(histogram: str) -> Sequence[Json]:
    return [
        target(quantile(0.5, histogram), "p50"),
        target(quantile(0.9, histogram), "p90"),
        target(quantile(0.99, histogram), "p99", exemplars=True),
        target(mean(histogram), "mean"),
    ]


_SUMMARY = [
    number("Requests", "Requests that ended, a second.", "reqps", total(REQUESTS)),
    number(
        "Failed",
        "Share of requests that ended in an error, a timeout or a refusal; those that their "
        "caller cancelled are not among them.",
        "percentunit",
        _FAILED_SHARE,
    ),
    number("Median duration", "Half of the requests took longer.", "s", quantile(0.5, REQUEST)),
    number("p99 duration", "One request in a hundred took longer.", "s", quantile(0.99, REQUEST)),
    number(
        "p99 to first token",
        "One request in a hundred waited longer for its first token.",
        "s",
        quantile(0.99, TTFT),
    ),
    number(
        "Attributed",
        "Share of the requests' time that is spent in a named stage of serving. Unattributed "
        "time, the runtime's, and stages named by the application are not.",
        "percentunit",
        f"{_EXPLAINED} / {total(f'{STAGE}_sum')}",
    ),
]
_RATE_ERRORS_DURATION = [
    graph(
        "Requests by route",
        "Requests that ended, a second. Click a line for the route's slowest requests.",
        "reqps",
        [target(total(REQUESTS, ["service", "route"]), "{{service}} {{route}}")],
        width=THIRD,
        links=[slowest_of("__field.labels.service", "__field.labels.route")],
    ),
    graph(
        "Requests by status",
        "How they ended; together they are all requests.",
        "reqps",
        [target(total(REQUESTS, ["status"]), "{{status}}")],
        stacked=True,
        width=THIRD,
    ),
    graph(
        "Duration",
        "From a request's start to its end. The points are single requests: click one for its "
        "trace.",
        "s",
        _quantiles(REQUEST),
        width=THIRD,
    ),
]
_BREAKDOWN = [
    graph(
        "Mean time in each stage",
        "Critical-path time per request. Means over all requests, so that they add up to the "
        "mean duration: nothing is hidden, nothing counted twice.",
        "s",
        [target(_MEAN_PER_STAGE, "{{stage}}")],
        by_stage=True,
        stacked=True,
        width=WHOLE,
    ),
]
_TOKENS = [
    graph(
        "Time to first token",
        "From a request's start to its first output token, where known.",
        "s",
        _quantiles(TTFT),
        width=THIRD,
    ),
    graph(
        "Time per output token",
        "Mean time between output tokens after the first, of each request where it is known.",
        "s",
        _quantiles(TPOT),
        width=THIRD,
    ),
    graph(
        "Tokens",
        "Tokens read (input) and written (output), a second.",
        TOKENS_PER_S,
        [target(total(TOKENS, ["model", "direction"]), "{{model}} {{direction}}")],
        width=THIRD,
    ),
]
_HEATMAPS = [
    heatmap(
        "Distribution of durations",
        "How many requests took how long. The points are single requests: click one for its "
        "trace.",
        buckets(REQUEST),
        width=THIRD,
    ),
    heatmap(
        "Distribution of times to first token",
        "How many requests waited how long for their first token.",
        buckets(TTFT),
        width=THIRD,
    ),
    heatmap(
        "Distribution of times per output token",
        "How many requests got their tokens how fast.",
        buckets(TPOT),
        width=THIRD,
    ),
]

OVERVIEW: Final = dashboard(
    "latencytrace-overview",
    "latencytrace / Overview",
    "How many requests there are, how slow they are, and where their time goes.",
    variables=COHORT_VARIABLES,
    annotations=[alerts()],
    rows={
        "Now": _SUMMARY,
        "Rate, errors, duration": _RATE_ERRORS_DURATION,
        "Where the time goes": _BREAKDOWN,
        "Tokens": _TOKENS,
        "Distributions": _HEATMAPS,
    },
)
