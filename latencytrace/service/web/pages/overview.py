"""The page that one sees first: what is wrong now, and every route with its numbers."""

from collections.abc import Callable, Mapping
from functools import cache, partial

from fastapi import APIRouter, Request
from fastapi.responses import Response

from latencytrace.service.answers.documents import ObjectiveDocument, ObjectivesDocument
from latencytrace.service.answers.overview_documents import (
    MOST_ROUTES,
    ROUTES,
    TIMELINE_COLUMNS,
    OverviewDocument,
    RouteDocument,
    overview,
)
from latencytrace.service.web.drawing.bars import sparkline
from latencytrace.service.web.pages.cohort_bar import Asked, nearest
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.objectives import anchor
from latencytrace.service.web.pages.parts import Parts


def overview_pages(parts: Parts) -> APIRouter:
    """Answer at `/`."""
    router = APIRouter(include_in_schema=False)

    def context(question: Asked) -> Mapping[str, object]:
        given = "limit" in question.query.model_fields_set
        limit = min(question.query.limit, MOST_ROUTES) if given else ROUTES

        @cache
        def found(limit: int = limit) -> OverviewDocument:
            return overview(parts.store, question.cohort, question.now_ns, limit)

        return {
            "overview": found,
            "files": [
                Export("routes.csv", lambda: [*map(route_row, found(MOST_ROUTES)["routes"])])
            ],
            "more": question.link("/", limit=str(MOST_ROUTES)),
            "most": MOST_ROUTES,
            "export": question.link("/api/v1/overview", limit=str(limit) if given else None),
            "alerts": lambda: parts.alerts()["alerts"],
            "objectives_of": partial(objectives_of, cache(parts.objectives)),
            "anchor": anchor,
            "spark": spark,
            "nearest": lambda: list(nearest(parts.store, question)),
        }

    @router.get("/")
    def overview_page(request: Request) -> Response:
        return parts.cohort_page(request, "overview.html", "Overview", context)

    return router


def objectives_of(
    standing: Callable[[], ObjectivesDocument], route: RouteDocument
) -> list[ObjectiveDocument]:
    """The objectives that a route's requests count for."""
    return [
        one
        for one in standing()["objectives"]
        if one["service"] == route["service"] and one["route"] in {None, route["route"]}
    ]


def route_row(route: RouteDocument) -> Mapping[str, object]:
    """A route as a row of a table: without what it took over time."""
    return {name: value for name, value in route.items() if name != "timeline"}


def spark(route: RouteDocument) -> str:
    """Its mean durations over time."""
    columns = [(column["column"], float(column["mean_ns"])) for column in route["timeline"]]
    return sparkline(columns, TIMELINE_COLUMNS)
