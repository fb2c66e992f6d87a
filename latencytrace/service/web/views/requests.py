"""`GET /api/v1/requests` and `/requests/{trace_id}`."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.cohort_query import cohort_query
from latencytrace.service.answers.documents import RequestDocument, RequestsDocument
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.store import Order, Store


def requests_router(
    store: Store,
    now_ns: Callable[[], int],
    is_open: Callable[[str], bool],
    profiles_of: Callable[[str], list[str]],
) -> APIRouter:
    """Requests of a cohort, and one with its spans."""
    router = APIRouter(tags=["requests"])

    @router.get("/requests", response_model=RequestsDocument)
    def requests(
        cohort: Annotated[dict[str, str | None], Depends(cohort_query)],
        order: Annotated[Order, Query(description="slowest or newest first")] = Order.SLOWEST,
        limit: Annotated[int, Query(ge=1, le=answers.MAX_LIMIT)] = 20,
    ) -> Response:
        """Requests of a cohort with their ledgers and segments, without spans."""
        return JsonAnswer(
            answers.requests(store, answers.cohort_of(cohort, now_ns()), order, limit)
        )

    @router.get("/requests/{trace_id}", response_model=RequestDocument)
    def request(
        trace_id: str,
        span_id: Annotated[str | None, Query(description="of an inner request")] = None,
    ) -> Response:
        """The outermost request of a trace, or an inner one, with its spans."""
        document = answers.request(store, trace_id, span_id, is_open)
        return JsonAnswer({**document, "profiles": profiles_of(trace_id.lower())})

    return router
