"""`GET /api/v1/whatif`."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import Field

from latencytrace.service.answers import whatif as answers
from latencytrace.service.answers.compare_documents import WhatifDocument
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.store import Store
from latencytrace.service.web.queries import BreakdownQuery


class WhatifQuery(BreakdownQuery):
    """A cohort, and the stage of it that shall be faster."""

    stage: Annotated[str, Field(description="retrieve, decode and so on")]
    faster: Annotated[
        float | None, Field(ge=0, le=1, description="the share of its time that is gone")
    ] = None
    at_most_ms: Annotated[
        float | None, Field(ge=0, le=1e9, description="the longest that a call of it takes")
    ] = None


def whatif_router(store: Store, now_ns: Callable[[], int]) -> APIRouter:
    """A cohort as if a stage were faster."""
    router = APIRouter(tags=["whatif"])

    @router.get("/whatif", response_model=WhatifDocument)
    def whatif(asked: Annotated[WhatifQuery, Query()]) -> Response:
        """End-to-end quantiles if a stage took less time, by replaying requests."""
        change = answers.change_of(asked.stage, asked.faster, asked.at_most_ms)
        return JsonAnswer(answers.whatif(store, asked.cohort(now_ns()), change))

    return router
