"""`GET /api/v1/overhead`."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from latencytrace.service.answers.findings import overhead as answers
from latencytrace.service.answers.findings.overhead_documents import OverheadDocument
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.store import Store
from latencytrace.service.web.queries import BreakdownQuery


def overhead_router(store: Store, now_ns: Callable[[], int]) -> APIRouter:
    """Cost to requests of being traced, against a control group."""
    router = APIRouter(tags=["operation"])

    @router.get("/overhead", response_model=OverheadDocument)
    def overhead(asked: Annotated[BreakdownQuery, Query()]) -> Response:
        """How much longer requests take for being traced in full, with its interval."""
        return JsonAnswer(answers.overhead(store, asked.cohort(now_ns())))

    return router
