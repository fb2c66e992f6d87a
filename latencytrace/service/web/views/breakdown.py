"""`GET /api/v1/breakdown`."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.documents import BreakdownDocument
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.store import Store
from latencytrace.service.web.queries import BreakdownQuery


def breakdown_router(store: Store, now_ns: Callable[[], int]) -> APIRouter:
    """Time per stage of a cohort."""
    router = APIRouter(tags=["breakdown"])

    @router.get("/breakdown", response_model=BreakdownDocument)
    def breakdown(asked: Annotated[BreakdownQuery, Query()]) -> Response:
        """Time per stage of a cohort, as means, shares and quantiles."""
        return JsonAnswer(answers.breakdown(store, asked.cohort(now_ns())))

    return router
