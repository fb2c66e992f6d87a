"""The objectives: how much of each budget is left, how fast it burns, and the alerts."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from latencytrace.model.objective import EACH_ROUTE, window_text
from latencytrace.model.texts.units import objective_text
from latencytrace.service.alerting.over_time import ObjectiveOverTimeDocument
from latencytrace.service.answers.documents import (
    AlertDocument,
    BadRequestDocument,
    ObjectiveDocument,
)
from latencytrace.service.cohort import Cohort
from latencytrace.service.store import Store
from latencytrace.service.web.drawing.budget import budget_line, burn_lines
from latencytrace.service.web.drawing.releases import Release
from latencytrace.service.web.pages.cohort_bar import Written, next_second, whole_second, written
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.releases import releases_of
from latencytrace.service.web.pages.rendering import Address

MARGIN_NS = 15 * 60 * 10**9  # before and after an alert that is over
DAY_NS = 86_400 * 10**9
_Key = tuple[str, str | None]


def objectives_pages(parts: Parts) -> APIRouter:
    """Answer at `/objectives`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/objectives")
    def objectives_page(request: Request) -> Response:
        alerts, standing = parts.alerts()["alerts"], parts.objectives()
        past, over_time = parts.past_alerts(), parts.objectives_over_time()["objectives"]
        found = sorted(standing["objectives"], key=_budget_left)
        files = parts.files(
            request,
            [
                Export("objectives.csv", lambda: [*map(_row, found)]),
                Export("budget.csv", lambda: [*budget_rows(over_time)]),
                Export("alerts.csv", lambda: past),
            ],
        )
        if isinstance(files, Response):
            return files
        context = {
            **files,
            "title": "SLOs",
            "path": request.url.path,
            "asked": written(request),
            "objectives": found,
            "maintenance": standing["maintenance"],
            "alerts": alerts,
            "past": past,
            "over_time": {(one["name"], one["route"]): one for one in over_time},
            "key": key,
            "anchor": anchor,
            "begun": partial(begun, [*alerts, *past]),
            "budget_line": budget_line,
            "releases": partial(budget_releases, parts.service.store, written(request)),
            "burn_lines": burn_lines,
            "objective_text": objective_text,
            "bad_request": bad_request,
            "cohort_link": cohort_link,
            "requests_of": requests_of,
        }
        return parts.renderer.page("objectives.html", context)

    return router


def key(objective: ObjectiveDocument) -> _Key:
    """The name of an objective, with the route where one holds for each."""
    return objective["name"], objective["route"]


def anchor(objective: ObjectiveDocument) -> Address:
    """The place of an objective on the page; those of one name have different routes."""
    return Address(quote(" ".join(filter(None, key(objective))), safe=""))


def begun(
    alerts: Sequence[AlertDocument], objective: ObjectiveDocument
) -> list[tuple[int, int | None]]:
    """The alerts of an objective: when each began and ended; None: it fires."""
    return [
        (int(one["started"]), None if one["ended"] is None else int(one["ended"]))
        for one in alerts
        if (one["labels"]["slo"], one["labels"].get("route")) == key(objective)
    ]


def budget_releases(
    store: Store, asked: Written, objective: ObjectiveDocument, found: ObjectiveOverTimeDocument
) -> list[Release]:
    """The releases within the time of a budget, each compared over a day before and after it."""
    times_ns = int(found["since"]), int(found["until"])
    of = {name: text for name, text in cohort_link(objective).items() if name != "version"}
    cohort = Cohort.model_validate({"since_ns": times_ns[0], "until_ns": times_ns[1], **of})
    versions = {version: at_ns for (_, version), at_ns in store.versions(cohort).items()}
    return releases_of(asked, times_ns, versions, of, DAY_NS)


def budget_rows(found: Sequence[ObjectiveOverTimeDocument]) -> Iterator[Mapping[str, object]]:
    """All budgets over time as rows of a table."""
    for objective in found:
        names = {name: objective[name] for name in ("name", "service", "route")}
        yield from ({**names, **point} for point in objective["budget"])


def requests_of(alert: AlertDocument) -> Address:
    """The breakdown of the requests of an alert that is over, and of some minutes around it."""
    labels = alert["labels"]
    named = {name: labels[name] for name in ("service", "route") if name in labels}
    since_ns = int(alert["onset"] or alert["started"]) - MARGIN_NS
    until_ns = int(alert["ended"] or alert["started"]) + MARGIN_NS
    times = {"since": whole_second(since_ns), "until": next_second(until_ns)}
    return Address(f"/breakdown?{urlencode(named | times)}")


def bad_request(one: BadRequestDocument) -> Address:
    """The page of a request that violated an objective; it names what held it up longest."""
    return Address(f"/requests/{one['trace_id']}?span_id={one['span_id']}")


def cohort_link(objective: ObjectiveDocument) -> dict[str, str]:
    """The filters of the requests that an objective counts."""
    named = {
        "service": objective["service"],
        "route": None if objective["route"] == EACH_ROUTE else objective["route"],
        "model": objective["model"],
        "version": objective["version"],
    }
    return {name: value for name, value in named.items() if value is not None}


def _row(objective: ObjectiveDocument) -> Mapping[str, object]:
    """An objective as a row of a table, the rate of each window by its name."""
    rates = {
        f"{rate['severity']}_{window_text(length_ns)}": burned
        for rate in objective["burn_rates"]
        for length_ns, burned in (
            (rate["long_ns"], rate["long"]),
            (rate["short_ns"], rate["short"]),
        )
    }
    plain = {name: value for name, value in objective.items() if name != "burn_rates"}
    return {**plain, "burn_rate": rates}


def _budget_left(objective: ObjectiveDocument) -> float:
    left = objective["budget_left_ratio"]
    return 2.0 if left is None else left
