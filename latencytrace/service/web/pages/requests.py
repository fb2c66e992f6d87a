"""The requests of a cohort: a list, and when they were and how long they took."""

from collections.abc import Mapping
from functools import cache, partial

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.documents import BreakdownDocument, RequestsDocument
from latencytrace.service.answers.overview_documents import LONG_LIVED_NS, overview
from latencytrace.service.store import Order, Questions
from latencytrace.service.web.drawing.releases import Release
from latencytrace.service.web.drawing.scatter import scatter
from latencytrace.service.web.pages.cohort_bar import Asked, nearest
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.grouping import BY, group_files, grouping
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.releases import releases
from latencytrace.service.web.pages.rendering import Address
from latencytrace.service.web.pages.trace import trace_address

MOST_LISTED = 200
LISTED = 50
MOST_OPEN = 3  # routes of connections that stay open


def requests_pages(parts: Parts) -> APIRouter:
    """Answer at `/requests`."""
    router = APIRouter(include_in_schema=False)

    def context(question: Asked) -> Mapping[str, object]:
        given = "limit" in question.query.model_fields_set
        limit = min(question.query.limit, MOST_LISTED) if given else LISTED
        kept = str(limit) if given else None
        order = question.query.order
        took = question.values["duration"] or None
        address = partial(trace_address, question)

        @cache
        def found() -> RequestsDocument:
            return answers.requests(parts.service.store, question.cohort, order, limit)

        @cache
        def breakdown() -> BreakdownDocument:
            return answers.breakdown(parts.service.store, question.cohort)

        @cache
        def began() -> list[Release]:
            return releases(parts.service.store, question)

        def points() -> Markup:
            durations = breakdown()["duration_ns"]
            p99_ns = durations["p99"] if durations else None
            return scatter(found()["requests"], p99_ns, address, began())

        return {
            "files": [Export("requests.svg", points), *group_files(parts.service.store, question)],
            **grouping(parts.service.store, question, "/requests"),
            "found": found,
            "breakdown": breakdown,
            "order": order,
            "orders": [
                (str(one), question.link("/requests", order=str(one), limit=kept)) for one in Order
            ],
            "limit": limit,
            "more": question.link("/requests", order=str(order), limit=str(MOST_LISTED)),
            "tail": question.link("/tail", duration=None, selected=took),
            "points": points,
            "open_routes": lambda: open_routes(parts.service.store, question, found()),
            "releases": began,
            "trace_address": address,
            "nearest": lambda: list(nearest(parts.service.store, question)),
        }

    @router.get("/requests")
    def requests_page(request: Request) -> Response:
        return parts.cohort_page(request, "requests.html", "Requests", context, (BY,))

    return router


def open_routes(
    store: Questions, question: Asked, found: RequestsDocument
) -> list[tuple[str, Address]]:
    """Routes whose connections stay open, and the page without each."""
    long = any(one["duration_ns"] >= LONG_LIVED_NS for one in found["requests"])
    if question.cohort.route is not None or not long:
        return []
    routes = overview(store, question.cohort, question.now_ns)["routes"]
    names = dict.fromkeys(one["route"] for one in routes if one["long_lived"])
    return [
        (
            route,
            question.again("/requests", without=question.more("without", "route", route)),
        )
        for route in names
    ][:MOST_OPEN]
