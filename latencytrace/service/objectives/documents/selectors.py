"""Prometheus queries that ask our own metrics, and what to write for others.

Only what an objective can be is understood: one series of counters, in `sum` and `rate` or bare.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from latencytrace.model import Measure, RequestStatus, Stage
from latencytrace.model.objective import EACH_ROUTE, NO_LIMIT_NS
from latencytrace.service.objectives.documents.indicator import FAILED, Indicator

REQUESTS: Final = "latencytrace_requests_total"
HISTOGRAMS: Final = {
    "latencytrace_request_duration_seconds": Measure.DURATION,
    "latencytrace_stage_duration_seconds": Measure.STAGE,
    "latencytrace_time_to_first_token_seconds": Measure.TIME_TO_FIRST_TOKEN,
    "latencytrace_time_per_output_token_seconds": Measure.TIME_PER_OUTPUT_TOKEN,
}
_COHORT: Final = ("service", "route", "model")
_TARGET: Final = ("job", "instance")  # labels of what is scraped, which say nothing of requests
_TEXT: Final = r'"(?:[^"\\]|\\.)*"'
_MATCHER: Final = re.compile(rf"\s*(\w+)\s*(=~|!~|!=|=)\s*({_TEXT})\s*(?:,|$)")
_BY: Final = r"(?:by\s*\([^)]*\)\s*)"
_QUERY: Final = re.compile(
    rf"(?:sum\s*{_BY}?\(\s*)?(?:(?:rate|increase|irate)\s*\(\s*)?"
    rf"(?P<metric>[A-Za-z_:][\w:]*)\s*(?:\{{(?P<labels>(?:[^}}\"]|{_TEXT})*)\}})?"
    rf"\s*(?:\[[^\]]*\]\s*)?(?:\)\s*)*{_BY}?"
)
_LESS: Final = re.compile(
    r"\(*\s*(?P<total>sum\b.*?)\s-\s(?P<good>\s*sum\b.*?\[[^\]]*\]\s*\)\s*\))[\s)]*", re.DOTALL
)
_ANY: Final = (".*", ".+")
_ANY_METRIC: Final = re.compile(r"(?P<metric>[A-Za-z_:][\w:]*)\s*\{")
_LIMIT: Final = re.compile(r'\ble\s*=\s*"([^"]*)"')


class NotServedError(ValueError):
    """A query that our metrics cannot serve; says what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The series that a query asks."""

    metric: str
    labels: Mapping[str, tuple[str, str]]  # operator and value

    @property
    def cohort(self) -> tuple[str | None, ...]:
        """Service, route and model; None: any.

        Raises:
            NotServedError: It asks something else of them than one, or each route.
        """
        return tuple(self._named(label) for label in _COHORT)

    def _named(self, label: str) -> str | None:
        if label not in self.labels:
            return None
        operator, value = self.labels[label]
        if label == "route" and operator == "=~" and value in _ANY:
            return EACH_ROUTE
        if operator != "=":
            raise NotServedError(
                f'asks {label}{operator}"{value}": an objective is of one {label}, write '
                f'{label}="NAME", a document for each'
            )
        return value or None

    def statuses(self) -> frozenset[RequestStatus]:
        """How the requests end that it asks."""
        operator, value = self.labels.get("status", ("=~", ".*"))
        try:
            pattern = re.compile(value if "~" in operator else re.escape(value))
        except re.error:
            raise NotServedError(f'has status{operator}"{value}", no expression') from None
        return frozenset(
            one
            for one in RequestStatus
            if (pattern.fullmatch(one) is not None) != operator.startswith("!")
        )


def selection(query: str) -> Selection:
    """Read a query.

    Raises:
        NotServedError: The query is no sum of one counter.
    """
    found = _QUERY.fullmatch(query.strip())
    if found is None:
        raise NotServedError("is no sum of one counter")
    labels: dict[str, tuple[str, str]] = {}
    rest = (found["labels"] or "").strip()
    while rest:
        matcher = _MATCHER.match(rest)
        if matcher is None:
            raise NotServedError(f"has labels that are not understood: {rest[:40]!r}")
        text = re.sub(r"\\(.)", r"\1", matcher[3][1:-1])
        labels[matcher[1]] = matcher[2], text
        rest = rest[matcher.end() :]
    return Selection(metric=found["metric"], labels=labels)


def less_good(query: str) -> str | None:
    """The good requests of a query for all less the good ones; None: it is no such."""
    found = _LESS.fullmatch(query.strip())
    return None if found is None else found["good"].strip()


def timed(query: Selection) -> Indicator:
    """Read the histogram whose values are compared with a threshold.

    Raises:
        NotServedError: The query is not of one of our histograms.
    """
    metric = re.sub(r"_(bucket|count|sum)$", "", query.metric)
    if metric not in HISTOGRAMS:
        raise NotServedError(
            f"asks {query.metric}, which latencytrace does not count: write one of "
            f"{', '.join(HISTOGRAMS)}"
        )
    return _indicator(query, HISTOGRAMS[metric], None)


def ratio(good: Selection | None, bad: Selection | None, total: Selection) -> Indicator:
    """Read a ratio of two counters: requests within a limit, or requests that do not fail.

    Args:
        good: The requests that are good, or
        bad: Counter of bad requests.

    Raises:
        NotServedError: Our metrics do not tell such requests apart.
    """
    part = good or bad
    if part is None:
        raise NotServedError("has neither good nor bad: add one")
    if part.cohort != total.cohort or _of_stage(part) != _of_stage(total):
        raise NotServedError("asks for requests that total leaves out: write the same labels")
    histogram = part.metric.removesuffix("_bucket")
    if good is not None and histogram in HISTOGRAMS and part.metric.endswith("_bucket"):
        if total.metric != f"{histogram}_count":
            raise NotServedError(f"needs the total {histogram}_count")
        return _indicator(good, HISTOGRAMS[histogram], _limit_ns(good))
    if part.metric != REQUESTS or total.metric not in _TOTALS:
        raise NotServedError(f"asks {part.metric} of {total.metric}")
    statuses = part.statuses() - {RequestStatus.CANCELLED}
    wanted = {RequestStatus.OK} if good is not None else FAILED
    if statuses != wanted or not total.statuses() >= {RequestStatus.OK, *FAILED}:
        raise NotServedError(
            "tells apart how requests fail: all that fail are bad, write "
            f'status{"=" if good is not None else "!="}"ok" here, and no status in total'
        )
    return _indicator(part, Measure.DURATION, NO_LIMIT_NS)


_TOTALS: Final = (REQUESTS, "latencytrace_request_duration_seconds_count")


def suggestion(service: str | None, query: str, *, part: str) -> str:
    """Return the query of our metrics to write in the place of one of others.

    Args:
        part: `good`, `bad`, `total` or `histogram`.
    """
    named = f'service="{service or "SERVICE"}",route="ROUTE"'
    if part == "histogram":
        return f"latencytrace_request_duration_seconds{{{named}}}"
    limit = _LIMIT.search(query)
    if limit is not None and part == "bad":
        return _less(named, limit[1])
    if limit is not None:
        metric = f'latencytrace_request_duration_seconds_bucket{{{named},le="{limit[1]}"}}'
    elif part == "total" and re.search(r"_(seconds|duration\w*)_count\b", query):
        metric = f"latencytrace_request_duration_seconds_count{{{named}}}"
    else:
        status = {"good": ',status="ok"', "bad": ',status!="ok"'}.get(part, "")
        metric = f"{REQUESTS}{{{named}{status}}}"
    return f"sum(rate({metric}[{{{{.window}}}}]))" if "rate(" in query else metric


def _less(named: str, limit: str) -> str:
    histogram = "latencytrace_request_duration_seconds"
    total = f"sum(rate({histogram}_count{{{named}}}[{{{{.window}}}}]))"
    return f'{total} - sum(rate({histogram}_bucket{{{named},le="{limit}"}}[{{{{.window}}}}]))'


def asked_metric(query: str) -> str:
    """Return the first metric of a query, for a message."""
    found = _ANY_METRIC.search(query) or re.search(r"(?P<metric>\w*_(?!over_time)\w+)", query)
    return found["metric"] if found is not None else query.strip()[:40]


def is_ours(query: str) -> bool:
    return "latencytrace_" in query


def _of_stage(query: Selection) -> tuple[str, str] | None:
    return query.labels.get("stage")


def _limit_ns(query: Selection) -> int:
    operator, value = query.labels.get("le", ("", ""))
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if operator != "=" or not 0 < seconds < float("inf"):
        raise NotServedError('needs the limit in seconds: write le="2.0"')
    return round(seconds * 1e9)


def _indicator(query: Selection, measure: Measure, limit_ns: int | None) -> Indicator:
    known: Sequence[str] = (*_COHORT, *_TARGET, "status", "stage", "le")
    unknown = [label for label in query.labels if label not in known]
    if unknown:
        raise NotServedError(
            f"asks the label {unknown[0]!r}, which our metrics do not have: write "
            f"{', '.join(_COHORT)}, and status or stage"
        )
    service, route, model = query.cohort
    stage = None
    if measure is Measure.STAGE:
        operator, value = query.labels.get("stage", ("", ""))
        if operator != "=" or value not in set(Stage):
            raise NotServedError(f'needs a stage: write stage="NAME", of {", ".join(Stage)}')
        stage = Stage(value)
    return Indicator(
        measure=measure,
        stage=stage,
        service=service,
        route=route,
        model=model,
        version=None,
        limit_ns=limit_ns,
    )
