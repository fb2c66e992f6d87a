"""`GET /api/v1/overview` and `GET /api/v1/heatmap`."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from latencytrace.service.answers import overview_documents as answers
from latencytrace.service.answers.overview_documents import HeatMapDocument, OverviewDocument
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.store import Store
from latencytrace.service.web.queries import BreakdownQuery, OverviewQuery


def overview_router(store: Store, now_ns: Callable[[], int]) -> APIRouter:
    """Routes side by side, and durations over time."""
    router = APIRouter(tags=["overview"])

    @router.get("/overview", response_model=OverviewDocument)
    def overview(asked: Annotated[OverviewQuery, Query()]) -> Response:
        """The routes of every service, those first whose requests took most time in all."""
        at_ns = now_ns()
        return JsonAnswer(answers.overview(store, asked.cohort(at_ns), at_ns, asked.limit))

    @router.get("/heatmap", response_model=HeatMapDocument)
    def heat_map(asked: Annotated[BreakdownQuery, Query()]) -> Response:
        """The durations of a cohort over time: how many requests took about as long."""
        at_ns = now_ns()
        return JsonAnswer(answers.heat_map(store, asked.cohort(at_ns), at_ns))

    return router
